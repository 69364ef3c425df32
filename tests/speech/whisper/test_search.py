"""Searches over a made-up language whose probabilities are known."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from stoker.speech.whisper.rules import Rules
from stoker.speech.whisper.search import Beam, Candidate, Sampling, Search, best
from stoker.speech.whisper.segments import cut
from stoker.speech.whisper.tokenizer import WhisperTokenizer

from . import tiny

V, EOT, LENGTH = 5, 4, 4
BEGIN = tiny.TIMESTAMP_BEGIN


def logits_after(tokens: tuple[int, ...]) -> torch.Tensor:
    """Any sequence has its own logits; after LENGTH tokens it ends."""
    if len(tokens) >= LENGTH:
        return torch.tensor([-math.inf] * EOT + [0.0])
    generator = torch.Generator().manual_seed(hash(tokens) % 2**31)
    logits = 2 * torch.randn(V, generator=generator)
    logits[EOT] -= 2
    return logits


def run(search: Search) -> list[Candidate]:
    rows: list[tuple[int, ...]] = [()]
    for _ in range(LENGTH + 1):
        sources = search.update(torch.stack([logits_after(row) for row in rows]))
        if sources is None:
            break
        assert len(sources) == len(search.sampled)
        for source, tokens in zip(sources, search.sampled, strict=True):
            assert tuple(tokens[:-1]) == rows[source]
        rows = [tuple(tokens) for tokens in search.sampled]
    return search.candidates()


def logprob(tokens: tuple[int, ...]) -> float:
    total = 0.0
    for i, token in enumerate((*tokens, EOT)):
        total += float(logits_after(tokens[:i]).log_softmax(-1)[token])
    return total


def test_greedy_takes_the_likeliest_token_each_time() -> None:
    (found,) = run(Sampling(0.0, 1, EOT, torch.Generator()))
    wanted: tuple[int, ...] = ()
    while (token := int(logits_after(wanted).argmax())) != EOT:
        wanted = (*wanted, token)
    assert found.tokens == wanted
    assert math.isclose(found.sum_logprob, logprob(wanted), abs_tol=1e-4)


def test_a_wide_beam_finds_the_best_sequence_of_all() -> None:
    everything = [tokens for n in range(LENGTH + 1) for tokens in itertools.product(range(EOT), repeat=n)]
    found = run(Beam(4, 60.0, EOT))
    likeliest = max(everything, key=logprob)
    assert max(found, key=lambda c: c.sum_logprob).tokens == likeliest
    for candidate in found:
        assert math.isclose(candidate.sum_logprob, logprob(candidate.tokens), abs_tol=1e-3)


def test_a_beam_stops_when_enough_have_ended() -> None:
    assert len(run(Beam(2, 1.0, EOT))) == 2
    wide = run(Beam(2, 2.0, EOT))  # four may end; in this language no more than two live that long
    assert 2 <= len(wide) <= 4


def test_unfinished_beams_count_where_too_few_have_ended() -> None:
    beam = Beam(3, 1.0, EOT)
    beam.update(torch.tensor([[1.0, 2.0, 3.0, 0.0, -50.0]]))
    assert [c.tokens for c in beam.candidates()] == [(2,), (1,), (0,)]


def test_the_same_seed_draws_the_same() -> None:
    def drawn(seed: int) -> list[tuple[int, ...]]:
        return [c.tokens for c in run(Sampling(1.0, 3, EOT, torch.Generator().manual_seed(seed)))]

    assert drawn(3) == drawn(3)
    assert len({tuple(drawn(seed)) for seed in range(8)}) > 1


def test_ranking() -> None:
    short, long = Candidate((1,), -1.5), Candidate((1, 2, 3), -3.0)
    assert best([short, long], None) is long  # -1.5 against -1 per token
    assert best([short, long], 0.0) is short  # no penalty: the sum alone


@pytest.fixture(scope="module")
def rules() -> Rules:
    return Rules(WhisperTokenizer(tiny.tiny_tokenizer()), torch.tensor([7, 9]), True, 50)


def allowed(rules: Rules, sampled: list[int], logits: torch.Tensor | None = None) -> set[int]:
    row = torch.zeros(1, tiny.VOCAB_SIZE)
    row[0, :257] = 10.0  # so that text is likelier than all timestamps together
    if logits is not None:
        row = logits
    rules.apply(row, [sampled])
    return set((row[0] > -math.inf).nonzero().flatten().tolist())


def test_a_window_begins_with_a_time_in_its_first_second(rules: Rules) -> None:
    assert allowed(rules, []) == set(range(BEGIN, BEGIN + 51))


def test_text_follows_an_opening_time(rules: Rules) -> None:
    left = allowed(rules, [BEGIN + 4])
    assert max(left) < BEGIN
    assert 10 in left
    assert left.isdisjoint({7, 9, rules.tokenizer.no_timestamps})


def test_a_closing_time_is_followed_by_its_twin_a_later_one_or_the_end(rules: Rules) -> None:
    left = allowed(rules, [BEGIN, 10, BEGIN + 20])
    assert left >= {tiny.EOT, BEGIN + 20, BEGIN + 21}
    assert BEGIN + 19 not in left
    assert 10 not in left


def test_segments_have_a_length(rules: Rules) -> None:
    left = allowed(rules, [BEGIN, 10, BEGIN + 20, BEGIN + 20, 11])
    assert BEGIN + 20 not in left
    assert BEGIN + 21 in left


def test_times_win_when_together_they_are_likelier(rules: Rules) -> None:
    logits = torch.zeros(1, tiny.VOCAB_SIZE)
    logits[0, 10] = 6.0  # e^6 = 403 against about 1500 timestamps
    assert min(allowed(rules, [BEGIN, 10], logits)) > BEGIN
    logits = torch.zeros(1, tiny.VOCAB_SIZE)
    logits[0, 10] = 8.0  # e^8 = 2981
    assert 10 in allowed(rules, [BEGIN, 10], logits)


def test_without_timestamps_there_are_no_time_rules(rules: Rules) -> None:
    plain = Rules(rules.tokenizer, rules.suppressed, False, None)
    left = allowed(plain, [])
    assert 10 in left
    assert tiny.EOT not in left
    assert tiny.EOT in allowed(plain, [10])


def test_cutting_at_pairs_of_times() -> None:
    tokens = [BEGIN, 1, 2, BEGIN + 50, BEGIN + 60, 3, BEGIN + 90, BEGIN + 90, 4]
    cuts = cut(tokens, BEGIN, 1500)
    assert [(s.start, s.end, s.tokens) for s in cuts.segments] == [
        (0, 50, (BEGIN, 1, 2, BEGIN + 50)),
        (60, 90, (BEGIN + 60, 3, BEGIN + 90)),
    ]
    assert cuts.resume == 90  # the 4 is heard again


@pytest.mark.parametrize(
    ("tokens", "spans", "resume", "silence"),
    [
        ([BEGIN, 1, BEGIN + 50], [(0, 50)], None, True),
        ([BEGIN, 1], [(0, 550)], None, False),
        ([1, 2], [(0, 550)], None, False),
        ([], [(0, 550)], None, False),
        ([BEGIN, 1, BEGIN + 9, BEGIN + 9, 2, BEGIN + 20], [(0, 9), (9, 20)], None, True),
        ([BEGIN, 1, BEGIN + 9, BEGIN + 9], [(0, 9)], 9, False),
    ],
)
def test_how_a_window_may_end(
    tokens: list[int], spans: list[tuple[int, int]], resume: int | None, silence: bool
) -> None:
    cuts = cut(tokens, BEGIN, 550)
    assert [(s.start, s.end) for s in cuts.segments] == spans
    assert (cuts.resume, cuts.ends_in_silence) == (resume, silence)
