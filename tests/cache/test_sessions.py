"""Sessions: their checkpoint is used without a search, and only when it fits."""

import pytest

from stoker.cache import PrefixIndex, PromptCache
from stoker.kv.blocks import BlockPool

SIZE = 4


def make(max_blocks=64, **options):
    pool = BlockPool(1000)
    return pool, PromptCache(PrefixIndex(pool, block_size=SIZE, max_blocks=max_blocks), **options)


def publish(pool, cache, tokens, **labels):
    blocks = pool.allocate(-(-len(tokens) // SIZE))
    cache.publish(tokens, blocks, **labels)
    pool.release(blocks)
    return blocks


def test_a_continuation_goes_straight_to_the_checkpoint():
    pool, cache = make()
    turn = [*range(10)]
    publish(pool, cache, turn, session="s")
    hit = cache.find([*turn, 77, 78], session="s")
    assert (hit.num_tokens, hit.from_session) == (10, True)
    assert not cache.find([*turn, 77, 78], session="other").from_session
    assert not cache.find([*turn, 77, 78]).from_session


@pytest.mark.parametrize(
    ("tokens", "num_tokens"),
    [([0, 1, 2, 3, 4, 99, 6, 7, 8, 9, 10], 5), ([0, 1, 2], 3), ([99, 1], 0)],
    ids=["edited", "shortened", "another"],
)
def test_what_does_not_continue_it_is_searched_for(tokens, num_tokens):
    pool, cache = make()
    publish(pool, cache, [*range(10)], session="s")
    hit = cache.find(tokens, session="s")
    assert (hit.num_tokens, hit.from_session) == (num_tokens, False)


def test_the_newest_checkpoint_counts():
    pool, cache = make()
    publish(pool, cache, [1] * 8, session="s")
    publish(pool, cache, [2] * 8, session="s")
    assert cache.find([2] * 9, session="s").from_session
    hit = cache.find([1] * 9, session="s")
    assert (hit.num_tokens, hit.from_session) == (8, False)


def test_a_session_gets_what_others_computed_behind_its_checkpoint():
    pool, cache = make()
    publish(pool, cache, [*range(6)], session="s")
    publish(pool, cache, [*range(20)])
    hit = cache.find([*range(30)], session="s")
    assert (hit.num_tokens, hit.from_session) == (20, True)


def test_a_checkpoint_belongs_to_its_namespace():
    pool, cache = make()
    publish(pool, cache, [1] * 8, session="s", namespace="adapter")
    assert cache.find([1] * 9, session="s").num_tokens == 0
    publish(pool, cache, [1] * 4, session="s")
    assert cache.find([1] * 9, session="s").num_tokens == 4
    assert cache.find([1] * 9, session="s", namespace="adapter").num_tokens == 8


def test_a_closed_session_is_forgotten_and_its_blocks_stay():
    pool, cache = make()
    publish(pool, cache, [1] * 8, session="s")
    assert cache.index.num_preferred == 2
    cache.close_session("s")
    cache.close_session("nobody")
    assert cache.index.num_preferred == 0
    hit = cache.find([1] * 9, session="s")
    assert (hit.num_tokens, hit.from_session) == (8, False)


def test_sessions_off():
    pool, cache = make(use_sessions=False)
    publish(pool, cache, [1] * 8, session="s")
    assert not cache.find([1] * 9, session="s").from_session
    assert cache.index.num_preferred == 0


def test_a_sessions_blocks_leave_last_and_their_end_first():
    pool, cache = make(max_blocks=6)
    publish(pool, cache, [1] * 8, session="s")
    for filler in range(10, 20):
        publish(pool, cache, [filler] * 8)
    assert cache.find([1] * 9, session="s").num_tokens == 8
    cache.reclaim(4 + 1)  # all of the others, and the end of the session's
    hit = cache.find([1] * 9, session="s")
    assert (hit.num_tokens, hit.from_session) == (4, True)
    cache.reclaim(1)
    assert cache.find([1] * 9, session="s").num_tokens == 0
    publish(pool, cache, [1] * 8, session="s")
    assert cache.find([1] * 9, session="s").from_session


def test_sessions_keep_no_more_than_their_share():
    pool, cache = make(max_blocks=8)
    for label in "abcdef":
        publish(pool, cache, [ord(label)] * 8, session=label)
    assert cache.index.num_preferred <= 6
    assert cache.find([ord("f")] * 9, session="f").from_session
    publish(pool, cache, [1] * 8)
    assert cache.find([1] * 9).num_tokens == 8


def test_labels_are_bounded():
    pool, cache = make(max_blocks=900)
    cache.sessions._max_labels = 10
    for number in range(50):
        publish(pool, cache, [number] * 4, session=str(number))
    assert len(cache.sessions) == 10
    assert cache.index.num_preferred == 10
    assert cache.find([49] * 5, session="49").from_session
    assert not cache.find([1] * 5, session="1").from_session


def test_two_sessions_share_a_beginning_and_part():
    pool, cache = make()
    opening = [*range(8)]
    publish(pool, cache, [*opening, 50, 51, 52, 53], session="p")
    publish(pool, cache, [*opening, 60, 61, 62, 63], session="q")
    assert cache.index.num_preferred == 4
    cache.close_session("p")
    assert cache.index.num_preferred == 3
    assert cache.find([*opening, 60, 61, 62, 63, 1], session="q").num_tokens == 12
    cache.close_session("q")
    assert cache.index.num_preferred == 0
