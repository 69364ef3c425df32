"""Exactness on real weights, over the prompts of prompts.py, against the float32 reference (reference.py).

The default mode is held to llama.cpp's own distance from that reference on the same prompts, weights and
positions, as measured by benchmarks/exactness.py (peer.json: on what machine, when, with which version).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from tests.exactness.generation import Answer, generate
from tests.exactness.metrics import NUM_CONTINUATION, POSITIONS, mean_top5, top_differences
from tests.exactness.prompts import PROMPTS

from stoker.app import Served

pytestmark = pytest.mark.real_weights

_MAX_NATS = 1e-3  # of the reference mode's top-20 log-probabilities
_MIN_SAME_TEXT = 0.95


def _forced(
    served: Served, peer: dict[str, Any], positions: Sequence[int]
) -> dict[tuple[str, int], dict[int, float]]:
    """Log-probabilities after each prompt and the first n tokens of its continuation, for n in `positions`,
    everything computed as a prompt."""
    prefixes = {
        (name, n): prompt["ids"] + prompt["continuation"][:n]
        for name, prompt in peer["prompts"].items()
        for n in positions
    }
    found: dict[tuple[str, int], dict[int, float]] = {}
    keys = list(prefixes)
    for start in range(0, len(keys), 64):  # as many as may wait at once
        part = {key: prefixes[key] for key in keys[start : start + 64]}
        found |= {key: answer.logprobs[0] for key, answer in generate(served.engine, part, 1).items()}
    return found


def _decoded(
    greedy: dict[str, Answer], peer: dict[str, Any], reference: dict[str, torch.Tensor]
) -> Iterator[tuple[torch.Tensor, dict[int, float]]]:
    """Reference and found log-probabilities wherever the decoded text so far is still the reference's."""
    for name, answer in greedy.items():
        continuation = peer["prompts"][name]["continuation"]
        for n in range(NUM_CONTINUATION):
            if answer.ids[:n] != continuation[:n]:
                break
            yield reference[name][n], answer.logprobs[n]


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
    for (name, n), found in _forced(served_float32, peer, POSITIONS[-1:]).items():
        assert max(top_differences(reference[name][n], found, 20)) < _MAX_NATS, (name, n)


def test_float32_decoding_is_exact(
    greedy_float32: dict[str, Answer], peer: dict[str, Any], reference: dict[str, torch.Tensor]
) -> None:
    worst = [max(top_differences(*pair, 20)) for pair in _decoded(greedy_float32, peer, reference)]
    assert len(worst) >= _MIN_SAME_TEXT * NUM_CONTINUATION * len(PROMPTS)
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
    assert POSITIONS[0] == 0  # the first generated token: the prompt alone has been computed
    found = _forced(served_by_default, peer, POSITIONS[1:])
    found |= {(name, 0): answer.logprobs[0] for name, answer in greedy_by_default.items()}
    ours = mean_top5([reference[name][n] for name, n in found], list(found.values()))
    assert ours <= peer["mean_abs_top5"]


def test_default_mode_is_no_further_off_than_llama_cpp_while_decoding(
    greedy_by_default: dict[str, Answer], peer: dict[str, Any], reference: dict[str, torch.Tensor]
) -> None:
    references, found = zip(*_decoded(greedy_by_default, peer, reference), strict=True)
    # Each prompt counts until its text departs from the reference's; most must do so late or never.
    assert len(found) >= NUM_CONTINUATION * len(PROMPTS) // 2
    assert mean_top5(references, found) <= peer["mean_abs_top5"]
