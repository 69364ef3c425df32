"""The prefix index against a plain list of published sequences, and its care of blocks."""

import random

import pytest

from stoker.cache import PrefixIndex
from stoker.kv.blocks import BlockPool

SIZE = 4


def make(num_blocks=64, max_blocks=64):
    pool = BlockPool(num_blocks)
    return pool, PrefixIndex(pool, block_size=SIZE, max_blocks=max_blocks)


def publish(pool, index, tokens):
    """As a row would: blocks of its own, published, then given back."""
    blocks = pool.allocate(-(-len(tokens) // SIZE))
    index.publish(tokens, blocks)
    pool.release(blocks)
    return blocks


def test_a_hit_is_exact_to_the_token():
    pool, index = make()
    blocks = publish(pool, index, [1, 2, 3, 4, 5, 6])
    for tokens, num_tokens, num_blocks in [
        ([1, 2, 3, 4, 5, 6, 7], 6, 2),
        ([1, 2, 3, 4, 5, 9], 5, 2),
        ([1, 2, 3, 4], 4, 1),
        ([1, 2, 9], 2, 1),
        ([9], 0, 0),
        ([], 0, 0),
    ]:
        hit = index.find(tokens)
        assert (hit.num_tokens, hit.blocks) == (num_tokens, blocks[:num_blocks])


def test_sequences_that_begin_alike_share_their_blocks():
    pool, index = make()
    first = publish(pool, index, [1, 2, 3, 4, 5, 6, 7, 8])
    publish(pool, index, [1, 2, 3, 4, 9, 9, 9, 9])
    assert len(index) == 3
    assert index.find([1, 2, 3, 4, 9, 9]).blocks[0] == first[0]
    assert pool.num_free == 64 - 3


def test_a_longer_sequence_replaces_the_unfinished_end_of_a_shorter_one():
    pool, index = make()
    publish(pool, index, [1, 2, 3, 4, 5])
    longer = publish(pool, index, [1, 2, 3, 4, 5, 6, 7])
    assert len(index) == 2
    assert index.find([1, 2, 3, 4, 5, 6, 7, 8]).blocks[1] == longer[1]
    publish(pool, index, [1, 2, 3, 4, 5])  # known already
    assert len(index) == 2


def test_the_stalest_sequences_leave_first_and_ends_before_beginnings():
    pool, index = make(max_blocks=4)
    publish(pool, index, [1] * 8)
    publish(pool, index, [2] * 8)
    index.find([1] * 8)
    publish(pool, index, [3] * 4)
    assert index.find([1] * 8).num_tokens == 8
    assert index.find([2] * 8).num_tokens == 4  # its end went, its beginning stayed
    assert index.find([3] * 4).num_tokens == 4
    assert len(index) == 4


def test_blocks_in_use_by_a_row_survive_being_let_go():
    pool, index = make(num_blocks=4)
    blocks = publish(pool, index, [1] * 8)
    hit = index.find([1] * 8)
    pool.retain(hit.blocks)
    assert index.reclaim(10) == 0
    assert pool.num_free == 2
    pool.release(blocks)
    assert pool.num_free == 4


@pytest.mark.parametrize("seed", range(10))
def test_random_sequences(seed):
    """Without a bound on blocks the longest stored prefix is always found; bounded, a hit is never
    wrong; and no block is lost either way."""
    chooser = random.Random(seed)
    for max_blocks in (10_000, 12):
        pool, index = make(10_000, max_blocks)
        contents, published = {}, []
        for _ in range(300):
            tokens = [chooser.randrange(2) for _ in range(chooser.randrange(1, 25))]
            if published and chooser.random() < 0.5:
                stem = chooser.choice(published)
                tokens = stem[: chooser.randrange(len(stem) + 1)] + tokens
            hit = index.find(tokens)
            held = [token for block in hit.blocks for token in contents[block]]
            assert held[: hit.num_tokens] == tokens[: hit.num_tokens]
            best = max((_common(tokens, known) for known in published), default=0)
            assert hit.num_tokens == best if max_blocks == 10_000 else hit.num_tokens <= best
            blocks = pool.allocate(-(-len(tokens) // SIZE))
            for i, block in enumerate(blocks):
                contents[block] = tokens[i * SIZE : (i + 1) * SIZE]
            index.publish(tokens, blocks)
            pool.release(blocks)
            published.append(tokens)
            assert len(index) <= max_blocks
            assert pool.num_free == 10_000 - len(index)
        index.clear()
        assert pool.num_free == 10_000


class Recorder:
    """What a disk tier would be told."""

    def __init__(self):
        self.told = []

    def published(self, path, tokens, blocks):
        self.told.append(("published", list(tokens)))

    def evicting(self, node):
        self.told.append(("evicting", list(node.tokens)))

    def release_pending(self):
        return False


def test_only_the_base_models_entries_are_told_of():
    """B40 on disk: what an adapter computed must never be stored under the base model's name."""
    pool, index = make()
    index.listener = recorder = Recorder()
    for namespace, token in (("", 1), ("adapter", 2)):
        blocks = pool.allocate(1)
        index.publish([token] * 3, blocks, namespace=namespace)
        pool.release(blocks)
    assert [node.tokens[0] for node in index.unsaved_leaves()] == [1]
    index.clear()
    assert recorder.told == [("published", [1, 1, 1]), ("evicting", [1, 1, 1])]


def test_idle_entries_are_let_go_and_fresh_ones_with_their_beginnings_stay(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("stoker.cache.prefix.time.monotonic", lambda: now[0])
    pool, index = make()
    publish(pool, index, [1] * 8)
    publish(pool, index, [2] * 8)
    now[0] = 200.0
    publish(pool, index, [1] * 4 + [3] * 4)
    assert index.demote(before=150.0) == 3  # both blocks of 2, and the old end of 1
    assert index.find([1] * 4 + [3] * 4).num_tokens == 8
    assert index.find([2] * 8).num_tokens == 0
    assert index.demote(before=150.0) == 0


def _common(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
