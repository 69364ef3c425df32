"""Which stored sequence each session published last: its checkpoint. No tensors.

A label is a hint. It adds no history and hides nothing: a checkpoint is used only when its tokens
begin the new prompt, and what it holds stays open to everybody. When the end of a checkpoint has
to leave, the session keeps the part that is still stored. Everything here runs on the engine thread.
"""

from __future__ import annotations

from collections import OrderedDict

from stoker.cache.node import Node
from stoker.cache.prefix import PrefixIndex

MAX_LABELS = 1024

# Of the cache's blocks, what sessions may keep from leaving first. The rest is for everybody: labels
# that never come back must not crowd out the requests that carry none.
PREFERRED_SHARE = 0.75


class Sessions:
    """At most `max_labels`, the least recently used leaving first."""

    def __init__(self, index: PrefixIndex, *, max_labels: int = MAX_LABELS) -> None:
        self._index = index
        self._max_labels = max_labels
        # Label -> namespace -> checkpoint, least recently used label first.
        self._labels: OrderedDict[str, dict[str, Node]] = OrderedDict()
        self._at: dict[Node, set[tuple[str, str]]] = {}  # the same the other way round
        index.on_drop = self._on_drop

    def __len__(self) -> int:
        return len(self._labels)

    def checkpoint(self, label: str, namespace: str) -> Node | None:
        checkpoints = self._labels.get(label)
        if checkpoints is None:
            return None
        self._labels.move_to_end(label)
        return checkpoints.get(namespace)

    def move(self, label: str, namespace: str, node: Node) -> None:
        """The newest checkpoint of the session in that namespace."""
        checkpoints = self._labels.setdefault(label, {})
        self._labels.move_to_end(label)
        old = checkpoints.get(namespace)
        checkpoints[namespace] = node
        self._unlink(old, label, namespace)
        self._at.setdefault(node, set()).add((label, namespace))
        self._index.prefer(node, instead_of=old)
        self._index.touch(node)
        most = PREFERRED_SHARE * self._index.max_blocks
        while len(self) > self._max_labels or (len(self) > 1 and self._index.num_preferred > most):
            self.close(next(iter(self._labels)))

    def close(self, label: str) -> None:
        """Forgets the label; what it pointed at stays stored."""
        for namespace, node in self._labels.pop(label, {}).items():
            self._unlink(node, label, namespace)
            self._index.prefer(None, instead_of=node)

    def _unlink(self, node: Node | None, label: str, namespace: str) -> None:
        if node is not None:
            self._at[node].discard((label, namespace))
            if not self._at[node]:
                del self._at[node]

    def _on_drop(self, node: Node, parent: Node) -> None:
        """The index lets go of a node: sessions that ended there now end before it."""
        for label, namespace in self._at.pop(node, ()):
            if parent.is_stored:
                self._labels[label][namespace] = parent
                self._at.setdefault(parent, set()).add((label, namespace))
            else:
                del self._labels[label][namespace]
