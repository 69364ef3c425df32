"""The pacer on made-up durations: what rows keep, how long they pause, how it finds out."""

import pytest

from stoker.engine.pacing import FIRST_CHUNK, PAUSE_S, SHARE, SMALLEST_CHUNK, PrefillPacer


def run(pacer, *, step_s, token_s, num_steps, num_decoding=7):
    """Steps of a machine on which one takes step_s and a prompt token adds token_s, a prompt always waiting:
    the chunks, and the part of the time that decoding alone would have taken."""
    chunks, total = [], 0.0
    for _ in range(num_steps):
        chunk = pacer.chunk()
        seconds = step_s + chunk * token_s
        pacer.after_step(seconds, num_decoding=num_decoding, num_prompt_tokens=chunk)
        chunks.append(chunk)
        total += seconds
    return chunks, num_steps * step_s / total


@pytest.mark.parametrize("step_s", [0.005, 0.02])
@pytest.mark.parametrize("token_s", [0.0005, 0.002])
def test_rows_keep_their_share_and_pauses_are_short(step_s, token_s):
    pacer = PrefillPacer(largest=256)
    pacer.after_step(step_s, num_decoding=7, num_prompt_tokens=0)
    run(pacer, step_s=step_s, token_s=token_s, num_steps=50)
    chunks, kept = run(pacer, step_s=step_s, token_s=token_s, num_steps=400)
    assert 1 - SHARE - 0.02 < kept < 1 - SHARE + 0.12  # whole steps are given back, so a little more
    assert max(chunks) * token_s == pytest.approx(PAUSE_S, rel=0.1)
    assert chunks.count(0) < len(chunks)


def test_where_prompt_tokens_cost_nothing_every_step_takes_a_whole_chunk():
    pacer = PrefillPacer(largest=256)
    pacer.after_step(0.01, num_decoding=3, num_prompt_tokens=0)
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
    pacer.after_step(1.0, num_decoding=2, num_prompt_tokens=32)
    assert pacer.chunk() == 0
    pacer.after_step(1.0, num_decoding=0, num_prompt_tokens=256)
    assert pacer.chunk() > 0


def test_one_hiccup_does_not_shut_prompts_out():
    pacer = PrefillPacer(largest=64)
    pacer.after_step(0.01, num_decoding=2, num_prompt_tokens=0)
    pacer.after_step(30.0, num_decoding=2, num_prompt_tokens=32)
    steps = 0
    while not pacer.chunk():
        pacer.after_step(0.01, num_decoding=2, num_prompt_tokens=0)
        steps += 1
    assert steps * 0.01 < 1
