"""stoker: a complete private AI endpoint on one machine."""

__version__ = "0.1.0"
