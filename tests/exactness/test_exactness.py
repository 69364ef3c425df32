"""Exactness on real weights, over the prompts of prompts.py, against the float32 reference (reference.py).

The default mode is held to llama.cpp's own distance from that reference on the same prompts, weights and
positions, as measured by benchmarks/exactness.py (peer.json: on what machine, when, with which version).
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
import torch
from tests.exactness.generation import Answer, generate
from tests.exactness.metrics import NUM_POSITIONS, mean_top5, top_differences
from tests.exactness.prompts import PROMPTS

from stoker.app import Served

pytestmark = pytest.mark.real_weights

_MAX_NATS = 1e-3  # of the reference mode's top-20 log-probabilities
_MIN_SAME_TEXT = 0.95

Found = dict[tuple[str, int], dict[int, float]]  # (prompt, position) -> log-probabilities by token id


def _forced(served: Served, peer: dict[str, Any], n: int) -> Found:
    """Log-probabilities after each prompt and the first n tokens of its continuation, all of it computed as a
    prompt."""
    prefixes = {name: p["ids"] + p["continuation"][:n] for name, p in peer["prompts"].items()}
    answers = generate(served.engine, prefixes, 1)
    return {(name, n): answer.logprobs[0] for name, answer in answers.items()}


def _decoded(greedy: dict[str, Answer], peer: dict[str, Any]) -> Found:
    """Log-probabilities wherever the decoded text so far is still the reference's."""
    found: Found = {}
    for name, answer in greedy.items():
        continuation = peer["prompts"][name]["continuation"]
        for n in range(NUM_POSITIONS):
            if answer.ids[:n] != continuation[:n]:
                break
            found[name, n] = answer.logprobs[n]
    return found


def _compare_with_peer(
    found: Found, peer: dict[str, Any], reference: dict[str, torch.Tensor]
) -> tuple[float, float]:
    """Mean absolute difference of the top-5 log-probabilities: ours and llama.cpp's at the same positions."""
    ours = [mean_top5(reference[name][n], logprobs) for (name, n), logprobs in found.items()]
    theirs = [peer["prompts"][name]["mean_abs_top5"][n] for name, n in found]
    return fmean(ours), fmean(theirs)


def test_every_prompt_has_been_measured_on_the_peer(peer: dict[str, Any]) -> None:
    assert list(peer["prompts"]) == [prompt.name for prompt in PROMPTS]
    assert len(PROMPTS) >= 24


def test_token_ids_are_those_of_llama_cpp(served_by_default: Served, peer: dict[str, Any]) -> None:
    text = served_by_default.text
    for prompt in PROMPTS:
        ids = (
            text.prompt_from_messages(list(prompt.messages))
            if prompt.text is None
            else text.prompt_from_text(prompt.text)
        )
        assert ids == peer["prompts"][prompt.name]["ids"], prompt.name


def test_continuations_are_the_references_own_greedy_text(
    reference: dict[str, torch.Tensor], peer: dict[str, Any]
) -> None:
    """peer.json was written elsewhere; a near tie may fall otherwise here, but not by more than rounding."""
    for name, logprobs in reference.items():
        chosen = torch.tensor(peer["prompts"][name]["continuation"])
        lost = logprobs.amax(dim=-1) - logprobs.gather(1, chosen[:, None])[:, 0]
        assert lost.max() < 1e-4, name


def test_float32_prompts_are_exact(
    served_float32: Served, peer: dict[str, Any], reference: dict[str, torch.Tensor]
) -> None:
    for (name, n), found in _forced(served_float32, peer, n=16).items():
        assert max(top_differences(reference[name][n], found, 20)) < _MAX_NATS, name


def test_float32_decoding_is_exact(
    greedy_float32: dict[str, Answer], peer: dict[str, Any], reference: dict[str, torch.Tensor]
) -> None:
    found = _decoded(greedy_float32, peer)
    worst = [max(top_differences(reference[name][n], logprobs, 20)) for (name, n), logprobs in found.items()]
    assert len(worst) >= _MIN_SAME_TEXT * NUM_POSITIONS * len(PROMPTS)
    assert max(worst) < _MAX_NATS


def test_float32_greedy_text_is_the_references(
    greedy_float32: dict[str, Answer], peer: dict[str, Any]
) -> None:
    same = [answer.ids == peer["prompts"][name]["continuation"] for name, answer in greedy_float32.items()]
    assert sum(same) >= _MIN_SAME_TEXT * len(same)


def test_default_mode_is_no_further_off_than_llama_cpp_on_prompts(
    served_by_default: Served,
    greedy_by_default: dict[str, Answer],
    peer: dict[str, Any],
    reference: dict[str, torch.Tensor],
) -> None:
    found = {(name, 0): answer.logprobs[0] for name, answer in greedy_by_default.items()}
    for n in (4, 16):
        found |= _forced(served_by_default, peer, n)
    ours, theirs = _compare_with_peer(found, peer, reference)
    assert ours <= theirs


def test_default_mode_is_no_further_off_than_llama_cpp_while_decoding(
    greedy_by_default: dict[str, Answer], peer: dict[str, Any], reference: dict[str, torch.Tensor]
) -> None:
    found = _decoded(greedy_by_default, peer)
    # Each prompt counts until its text departs from the reference's; most must do so late or never.
    assert len(found) >= NUM_POSITIONS * len(PROMPTS) // 2
    ours, theirs = _compare_with_peer(found, peer, reference)
    assert ours <= theirs
