"""The pacer on made-up durations: what rows keep, how long they pause, how it finds out."""

import pytest

from stoker.engine.pacing import FIRST_CHUNK, PAUSE_S, SHARE, SMALLEST_CHUNK, PrefillPacer


def after(pacer, seconds, num_decoding, num_tokens, num_prompts=1):
    pacer.after_step(
        seconds, num_decoding=num_decoding, num_prompts=num_prompts, num_prompt_tokens=num_tokens
    )


def run(pacer, *, step_s, token_s, num_steps, num_decoding=7, num_prompts=1):
    """Steps of a machine on which one takes step_s and a prompt token adds token_s, a prompt always waiting:
    the chunks, and the part of the time that decoding alone would have taken."""
    chunks, total = [], 0.0
    for _ in range(num_steps):
        chunk = pacer.chunk()
        seconds = step_s + chunk * token_s
        after(pacer, seconds, num_decoding, chunk, num_prompts)
        chunks.append(chunk)
        total += seconds
    return chunks, num_steps * step_s / total


@pytest.mark.parametrize("step_s", [0.005, 0.02])
@pytest.mark.parametrize("token_s", [0.0005, 0.002])
def test_rows_keep_their_share_and_pauses_are_short(step_s, token_s):
    pacer = PrefillPacer(largest=256)
    after(pacer, step_s, 7, 0)
    run(pacer, step_s=step_s, token_s=token_s, num_steps=50)
    chunks, kept = run(pacer, step_s=step_s, token_s=token_s, num_steps=400)
    assert 1 - SHARE - 0.02 < kept < 1 - SHARE + 0.12  # whole steps are given back, so a little more
    assert max(chunks) * token_s == pytest.approx(PAUSE_S, rel=0.1)
    assert chunks.count(0) < len(chunks)


@pytest.mark.parametrize(("num_decoding", "num_prompts", "kept"), [(1, 1, 0.5), (1, 2, 1 / 3), (1, 7, 0.25)])
def test_prompts_that_are_not_fewer_get_as_much(num_decoding, num_prompts, kept):
    pacer = PrefillPacer(largest=256)
    after(pacer, 0.001, num_decoding, 0)
    how = {"step_s": 0.001, "token_s": 0.001, "num_decoding": num_decoding, "num_prompts": num_prompts}
    run(pacer, num_steps=50, **how)
    _, found = run(pacer, num_steps=400, **how)
    assert kept - 0.02 < found < kept + 0.03


def test_where_prompt_tokens_cost_nothing_every_step_takes_a_whole_chunk():
    pacer = PrefillPacer(largest=256)
    after(pacer, 0.01, 3, 0)
    chunks, kept = run(pacer, step_s=0.01, token_s=0.0, num_steps=10)
    assert chunks == [FIRST_CHUNK, *[256] * 9]
    assert kept == pytest.approx(1)


def test_where_they_are_dear_a_chunk_stays_worth_reading_the_weights():
    pacer = PrefillPacer(largest=256)
    chunks, _ = run(pacer, step_s=0.5, token_s=0.5, num_steps=60)
    assert {chunk for chunk in chunks if chunk} == {FIRST_CHUNK, SMALLEST_CHUNK}


def test_a_small_limit_holds_from_the_first_chunk():
    chunks, _ = run(PrefillPacer(largest=5), step_s=0.01, token_s=0.001, num_steps=40)
    assert max(chunks) == 5


def test_a_prompt_alone_owes_nothing():
    pacer = PrefillPacer(largest=64)
    after(pacer, 1.0, 2, 32)
    assert pacer.chunk() == 0
    after(pacer, 1.0, 0, 256)
    assert pacer.chunk() > 0


def test_one_hiccup_does_not_shut_prompts_out():
    pacer = PrefillPacer(largest=64)
    after(pacer, 0.01, 2, 0)
    after(pacer, 30.0, 2, 32)
    steps = 0
    while not pacer.chunk():
        after(pacer, 0.01, 2, 0)
        steps += 1
    assert steps * 0.01 < 1
