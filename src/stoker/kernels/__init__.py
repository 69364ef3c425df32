"""Native code behind a C interface, each kernel with the torch fallback it is tested against."""

from stoker.kernels.native import describe

__all__ = ["describe"]
