"""One file per model family, each saying only what is special about it.

The registry finds every module in this folder; see registry.Family for what one declares.
"""
