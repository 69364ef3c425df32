"""What the engine asks of the cache in RAM: the longest stored prefix, and to store a new one.

Prefix index and sessions under one roof. Everything here runs on the engine thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.cache.node import Node
from stoker.cache.prefix import Hit, PrefixIndex
from stoker.cache.sessions import Sessions


class PromptCache:
    def __init__(self, index: PrefixIndex, *, use_sessions: bool = True) -> None:
        """use_sessions  False ignores every session label."""
        self.index = index
        self.sessions = Sessions(index)
        self.use_sessions = use_sessions

    def __len__(self) -> int:
        """Blocks held."""
        return len(self.index)

    @property
    def max_blocks(self) -> int:
        return self.index.max_blocks

    def find(self, tokens: Sequence[int], *, namespace: str = "", session: str | None = None) -> Hit:
        """The longest stored prefix of `tokens`: directly by the session's checkpoint, else by
        search. Takes no reference; use it at once."""
        known = None
        if session is not None and self.use_sessions:
            known = self.sessions.checkpoint(session, namespace)
        return self.index.find(tokens, namespace=namespace, known=known)

    def publish(
        self,
        tokens: Sequence[int],
        blocks: Sequence[int],
        *,
        namespace: str = "",
        session: str | None = None,
        after: Node | None = None,
    ) -> Node | None:
        """Stores `tokens`, held by `blocks`, as the session's newest checkpoint. Returns what to
        give as `after` when the same row publishes more."""
        node = self.index.publish(tokens, blocks, namespace=namespace, after=after)
        if node is not None and session is not None and self.use_sessions:
            self.sessions.move(session, namespace, node)
        return node

    def reclaim(self, num_blocks: int) -> int:
        """Lets go of up to `num_blocks` blocks; returns how many became free."""
        return self.index.reclaim(num_blocks)

    def release_pending(self) -> bool:
        """When nothing is left to reclaim: memory that waits for a write, if there is any."""
        return self.index.release_pending()

    def close_session(self, label: str) -> None:
        self.sessions.close(label)
