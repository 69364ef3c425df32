"""What the server offers in a request's scope to whoever streams a body. Imports nothing: server.py is
loaded before the web framework, which a start must not wait for."""

from __future__ import annotations

from collections.abc import Callable

# The shortcut for pieces of a streamed body, once its headers have gone through all layers. Those look at
# no later message, and awaiting each of them for every token is most of a write.
WRITE_NOW = "stoker.write_now"
WriteNow = Callable[[bytes], bool]  # False: nothing was written, send it as an ASGI message
