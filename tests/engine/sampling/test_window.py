"""A token window against a recount of the same tokens."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.sampling.window import TokenWindow

TOKENS = st.lists(st.integers(0, 5), max_size=60)


def contents(window: TokenWindow) -> dict[int, float]:
    ids = window.ids.tolist()
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, window.counts.tolist(), strict=True))


@settings(deadline=None)
@given(prompt=TOKENS, generated=TOKENS, size=st.integers(0, 8))
def test_counts_the_last_tokens(prompt: list[int], generated: list[int], size: int) -> None:
    window = TokenWindow(size, prompt)
    history = list(prompt)
    assert contents(window) == Counter(history[-size:])
    for token_id in generated:
        window.push(token_id)
        history.append(token_id)
        assert contents(window) == Counter(history[-size:])


@pytest.mark.parametrize("size", [0, 500])
def test_grows_past_its_first_capacity(size: int) -> None:
    window = TokenWindow(size)
    for token_id in range(1000):
        window.push(token_id)
    assert contents(window) == Counter(range(1000 - size if size else 0, 1000))


def test_prompt_may_be_any_sequence() -> None:
    assert contents(TokenWindow(2, (4, 4, 7))) == {4: 1, 7: 1}
    assert contents(TokenWindow(0, range(3))) == {0: 1, 1: 1, 2: 1}
