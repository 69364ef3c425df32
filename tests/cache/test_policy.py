"""The orders of eviction, and the two promises that hold in both: the cap, and leaves first."""

import random

import pytest

from stoker.cache import PrefixIndex, PromptCache
from stoker.cache.node import Node
from stoker.cache.policy import CostSize, LeastRecentlyUsed
from stoker.kv.blocks import BlockPool

SIZE = 4


def node(reused=0):
    return Node((1,), 0, None, num_reused=reused)


def order_of(order):
    left = []
    while len(order):
        left.append(order.first())
        order.remove(left[-1])
    return left


def test_least_recently_used():
    order, (a, b, c) = LeastRecentlyUsed(), (node(), node(), node())
    for used in (a, b, c, a):
        order.use(used)
    assert order_of(order) == [b, c, a]


def test_cost_size_keeps_what_saved_more_tokens_for_its_room():
    order, (a, b, c, d) = CostSize(SIZE), (node(8), node(2), node(), node(8))
    for used in (a, b, c, d):
        order.use(used)
    assert order_of(order) == [c, b, a, d]


def test_old_merits_fade():
    order, old = CostSize(SIZE), node(12)  # as much as three uses
    order.use(old)
    gone = []
    for _ in range(6):
        order.use(node())
        gone.append(order.first())
        order.remove(gone[-1])
    assert gone.index(old) == 3


def test_the_heap_does_not_grow_with_uses():
    order, a = CostSize(SIZE), node()
    for _ in range(10_000):
        order.use(a)
    assert len(order._heap) < 100


@pytest.mark.parametrize("retention", ["lru", "cost-size"])
@pytest.mark.parametrize("seed", range(4))
def test_random_traffic_with_sessions_and_namespaces(retention, seed):
    """The cap holds after every call, no hit is wrong or crosses a namespace, a session never gives
    less than a search would, no block is lost. (An inner node chosen to leave would be caught by an
    assertion in the index.)"""
    chooser = random.Random(seed)
    pool = BlockPool(10_000)
    cap = 40
    cache = PromptCache(PrefixIndex(pool, block_size=SIZE, max_blocks=cap, retention=retention))
    contents, published = {}, []
    for _ in range(800):
        namespace = chooser.choice(["", "a"])
        session = chooser.choice([None, *"pqrstu"])
        tokens = [chooser.randrange(2) for _ in range(chooser.randrange(1, 40))]
        if published and chooser.random() < 0.7:
            stem = chooser.choice(published[-20:])
            tokens = stem[: chooser.randrange(len(stem) + 1)] + tokens
        plain = cache.index.find(tokens, namespace=namespace)
        hit = cache.find(tokens, namespace=namespace, session=session)
        assert (hit.blocks, hit.num_tokens) == (plain.blocks, plain.num_tokens)
        held = [token for block in hit.blocks for token in contents[block][1]]
        assert held[: hit.num_tokens] == tokens[: hit.num_tokens]
        assert all(contents[block][0] == namespace for block in hit.blocks)
        blocks = pool.allocate(-(-len(tokens) // SIZE))
        for i, block in enumerate(blocks):
            contents[block] = (namespace, tokens[i * SIZE : (i + 1) * SIZE])
        first = cache.publish(
            tokens[: len(tokens) // 2 // SIZE * SIZE], blocks, namespace=namespace, session=session
        )
        cache.publish(tokens, blocks, namespace=namespace, session=session, after=first)
        pool.release(blocks)
        published.append(tokens)
        assert len(cache) <= cap
        assert pool.num_free == 10_000 - len(cache)
        if chooser.random() < 0.05:
            cache.close_session(chooser.choice("pqrstu"))
        if chooser.random() < 0.05:
            cache.reclaim(chooser.randrange(10))
    for label in "pqrstu":
        cache.close_session(label)
    assert cache.index.num_preferred == 0
    cache.index.clear()
    assert pool.num_free == 10_000
    assert not cache.index._roots
