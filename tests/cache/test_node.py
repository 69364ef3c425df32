"""Children by their tokens: the best match among thousands, against a plain comparison with all."""

import random

import pytest

from stoker.cache.node import Node, common_length, path_to


@pytest.mark.parametrize("seed", range(5))
def test_the_best_child_shares_most_tokens(seed):
    chooser = random.Random(seed)
    parent = Node((), -1, None)
    for number in range(300):
        tokens = tuple(chooser.randrange(3) for _ in range(chooser.choice([6, 6, 6, 2, 4])))
        if tokens not in parent.children:
            parent.add(Node(tokens, number, parent))
    for _ in range(300):
        part = tuple(chooser.randrange(4) for _ in range(chooser.randrange(1, 7)))
        child, length = parent.best_child(part)
        assert length == max(common_length(part, tokens) for tokens in parent.children)
        assert (child is None) == (length == 0)
        assert child is None or common_length(part, child.tokens) == length
    for child in list(parent.children.values()):
        parent.remove(child)
        assert parent.best_child(child.tokens)[0] is not child
    assert parent.best_child((0,)) == (None, 0)


def test_a_path_leaves_the_root_out():
    root = Node((), -1, None)
    first = Node((1, 2), 0, root)
    second = Node((3, 4), 1, first, start=2)
    assert path_to(second) == [first, second]
    assert path_to(root) == []
    assert second.end == 4
