"""How keys and values are laid out: the contract in base.py, one layout per file."""
