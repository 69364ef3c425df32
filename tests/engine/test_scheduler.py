"""The scheduler alone, on counted blocks instead of tensors."""

import random

import pytest

from stoker.core import GenerationRequest
from stoker.engine.row import Row
from stoker.engine.scheduler import Scheduler
from stoker.kv.blocks import OutOfMemory


class CountedKV:
    """Rows as token counts against one budget; forks share nothing, which is the worst case."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.held = {}

    def new_row(self):
        row = object()
        self.held[row] = 0
        return row

    def fits(self, num_tokens):
        return sum(self.held.values()) + num_tokens <= self.capacity

    def reserve(self, row, num_tokens):
        others = sum(n for r, n in self.held.items() if r is not row)
        if others + num_tokens > self.capacity:
            raise OutOfMemory
        self.held[row] = max(self.held[row], num_tokens)

    def fork(self, row):
        copy = object()
        self.held[copy] = self.held[row]
        return copy

    def trim(self, row, num_tokens):
        self.held[row] = min(self.held[row], num_tokens)

    def free(self, row):
        del self.held[row]


def make_row(prompt=10, name="r", index=0, leader=None):
    request = GenerationRequest(id=name, prompt_ids=tuple(range(prompt)), max_tokens=5)
    row = Row(request, index, None, None, list(request.prompt_ids), 5)
    if leader is not None:
        row.leader = leader
        leader.siblings.append(row)
    return row


def run_step(scheduler, **kwargs):
    """One step as the engine would: completed rows get a token."""
    step = scheduler.schedule(**kwargs)
    work = [(item.row, item.num_tokens, item.completes) for item in step]
    for item, (_, _, completes) in zip(step, work, strict=True):
        scheduler.account(item)
        if completes:
            item.row.tokens.append(99)
            item.row.num_generated += 1
    return work


class Pacer:
    """Allows the chunks it was told to, then the last for ever."""

    def __init__(self, *chunks):
        self.chunks = list(chunks)

    def chunk(self):
        return self.chunks.pop(0) if len(self.chunks) > 1 else self.chunks[0]


def scheduler_with(capacity=10_000, max_rows=8, chunk=32, beside=(32,), **kwargs):
    return Scheduler(
        CountedKV(capacity), max_rows=max_rows, prefill_chunk=chunk, pacer=Pacer(*beside), **kwargs
    )


def test_a_long_prompt_is_computed_in_chunks_and_then_decodes():
    scheduler = scheduler_with(chunk=32)
    row = make_row(prompt=70)
    scheduler.add(row)
    assert [run_step(scheduler)[0][1:] for _ in range(5)] == [
        (32, False), (32, False), (6, True), (1, True), (1, True),
    ]  # fmt: skip


def test_decoding_rows_are_in_every_step_beside_at_most_one_chunk():
    scheduler = scheduler_with(chunk=32)
    early = [make_row(prompt=4, name=f"e{i}") for i in range(3)]
    for row in early:
        scheduler.add(row)
    run_step(scheduler)
    for i in range(3):
        scheduler.add(make_row(prompt=100, name=f"long{i}"))
    for _ in range(9):
        work = run_step(scheduler)
        assert {row for row, _, _ in work} >= set(early)
        assert sum(count for _, count, _ in work if count > 1) <= 32


def test_beside_decoding_rows_a_prompt_gets_what_the_pacer_allows():
    scheduler = scheduler_with(chunk=32, beside=(8, 0, 0, 100))
    scheduler.add(make_row(prompt=4, name="early"))
    run_step(scheduler)
    scheduler.add(make_row(prompt=100, name="long"))
    counts = [[count for _, count, _ in run_step(scheduler)] for _ in range(4)]
    assert counts == [[1, 8], [1], [1], [1, 32]]


def test_without_a_pacer_every_step_takes_a_whole_chunk():
    scheduler = Scheduler(CountedKV(10_000), max_rows=8, prefill_chunk=32, pacer=None)
    scheduler.add(make_row(prompt=4, name="early"))
    run_step(scheduler)
    scheduler.add(make_row(prompt=100, name="long"))
    assert [[count for _, count, _ in run_step(scheduler)] for _ in range(2)] == [[1, 32], [1, 32]]
    assert scheduler.num_prompts == 1


def test_alone_a_prompt_gets_the_whole_chunk():
    scheduler = scheduler_with(chunk=32, beside=(0,))
    scheduler.add(make_row(prompt=100, name="first"))
    assert run_step(scheduler)[0][1] == 32


def test_short_prompts_share_one_chunk():
    scheduler = scheduler_with(chunk=32)
    for i in range(4):
        scheduler.add(make_row(prompt=8, name=f"s{i}"))
    assert [count for _, count, _ in run_step(scheduler)] == [8, 8, 8, 8]


def test_no_more_rows_than_allowed_and_first_come_first_served():
    admitted = []
    scheduler = scheduler_with(max_rows=2, on_admit=admitted.append)
    rows = [make_row(name=str(i)) for i in range(4)]
    for row in rows:
        scheduler.add(row)
    run_step(scheduler)
    assert scheduler.running == rows[:2] == admitted
    scheduler.remove(rows[0])
    run_step(scheduler)
    assert scheduler.running == rows[1:3]
    assert admitted == rows[:3]


def test_held_back_admission_drains_the_running_rows():
    scheduler = scheduler_with()
    first, second = make_row(name="a"), make_row(name="b")
    scheduler.add(first)
    run_step(scheduler)
    scheduler.add(second)
    assert [row for row, _, _ in run_step(scheduler, admit=False)] == [first]
    scheduler.remove(first)
    assert run_step(scheduler, admit=False) == []
    assert [row for row, _, _ in run_step(scheduler)] == [second]


def test_siblings_wait_for_the_prompt_and_compute_only_its_last_token():
    scheduler = scheduler_with(chunk=32)
    leader = make_row(prompt=50)
    siblings = [make_row(prompt=50, index=i, leader=leader) for i in (1, 2)]
    for row in [leader, *siblings]:
        scheduler.add(row)
    assert [(row, n) for row, n, _ in run_step(scheduler)] == [(leader, 32)]
    assert [(row, n) for row, n, _ in run_step(scheduler)] == [(leader, 18)]
    third = run_step(scheduler)
    assert [(row, n, done) for row, n, done in third] == [(row, 1, True) for row in [leader, *siblings]]


def test_siblings_of_a_leader_that_ends_early_prefill_for_themselves():
    scheduler = scheduler_with(chunk=32)
    leader = make_row(prompt=50)
    sibling = make_row(prompt=50, index=1, leader=leader)
    scheduler.add(leader)
    scheduler.add(sibling)
    run_step(scheduler)
    scheduler.remove(leader)
    assert [(row, n) for row, n, _ in run_step(scheduler)] == [(sibling, 32)]


def test_siblings_run_one_after_another_in_a_batch_of_one():
    scheduler = scheduler_with(max_rows=1)
    leader = make_row()
    sibling = make_row(index=1, leader=leader)
    scheduler.add(leader)
    scheduler.add(sibling)
    run_step(scheduler)
    assert run_step(scheduler)[0][0] is leader
    scheduler.remove(leader)
    assert [(row, n) for row, n, _ in run_step(scheduler)] == [(sibling, 1)]


def test_when_memory_runs_out_the_youngest_row_is_computed_again_later():
    scheduler = scheduler_with(capacity=60, chunk=64)
    old, young = make_row(prompt=20, name="old"), make_row(prompt=20, name="young")
    scheduler._admit()
    for row in (old, young):
        row.kv = scheduler._kv.new_row()
        scheduler.running.append(row)
        row.admitted = True
    for _ in range(60):
        if not young.kv:
            break
        run_step(scheduler)
    assert scheduler.num_preemptions == 1
    assert scheduler.running == [old]
    assert young.num_computed == 0
    assert list(scheduler.waiting) == [young]
    tokens = list(young.tokens)
    scheduler.remove(old)
    work = run_step(scheduler)
    assert [(row, n) for row, n, _ in work] == [(young, len(tokens))]


def test_a_row_that_would_be_preempted_at_once_is_not_admitted():
    scheduler = scheduler_with(capacity=200, chunk=64)
    scheduler.add(make_row(prompt=50, name="a"))
    run_step(scheduler)
    scheduler.add(make_row(prompt=100, name="b"))
    assert len(run_step(scheduler)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_traffic_loses_no_row_and_leaks_no_memory(seed):
    chooser = random.Random(seed)
    scheduler = scheduler_with(capacity=chooser.choice([120, 300, 2000]), max_rows=4, chunk=16)
    alive, ended = [], 0
    for _ in range(400):
        if chooser.random() < 0.2 and len(alive) < 20:
            leader = make_row(prompt=chooser.randint(1, 60))
            group = [leader] + [
                make_row(prompt=leader.num_prompt, index=i, leader=leader)
                for i in range(1, chooser.choice([1, 1, 3]))
            ]
            for row in group:
                row.request = leader.request
                row.tokens = list(leader.request.prompt_ids)
                scheduler.add(row)
            alive += group
        if chooser.random() < 0.05 and alive:
            scheduler.remove(alive.pop(chooser.randrange(len(alive))))
            ended += 1
        work = run_step(scheduler)
        assert len(scheduler.running) <= 4
        assert not alive or work, "rows are alive but nothing is scheduled"
        for row, _, _ in work:
            if row.num_generated >= 5:
                scheduler.remove(row)
                alive.remove(row)
                ended += 1
    for row in alive:
        scheduler.remove(row)
    assert ended > 10
    assert scheduler._kv.held == {}
    assert not scheduler.running
    assert not scheduler.waiting
