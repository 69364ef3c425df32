"""Which sequences share a pass."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.embed.batching import MAX_TOKENS, MIN_TOKENS, pass_tokens, plan_passes


@given(st.lists(st.integers(1, 700), max_size=80), st.integers(1, 10**8))
def test_every_sequence_once_within_the_limit(lengths: list[int], parameters: int) -> None:
    passes = plan_passes(lengths, parameters)
    assert sorted(index for group in passes for index in group) == list(range(len(lengths)))
    limit = pass_tokens(parameters)
    for group in passes:
        assert len(group) == 1 or sum(lengths[index] for index in group) <= limit
    ordered = [lengths[index] for group in passes for index in group]
    assert ordered == sorted(lengths)


def test_large_layers_make_small_passes() -> None:
    assert pass_tokens(1) == MAX_TOKENS
    assert pass_tokens(10**9) == MIN_TOKENS
    assert MIN_TOKENS < pass_tokens(3_000_000) < MAX_TOKENS
