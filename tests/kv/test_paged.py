"""Paged KV against plain attention over each row's own history, kept in lists by the test."""

import math
import random

import pytest
import torch

from stoker.kernels import native
from stoker.kv.base import LayerSpec, RowSpan
from stoker.kv.blocks import BLOCK_SIZE, OutOfMemory
from stoker.kv.paged import PagedKV
from stoker.kv.paged_native import NativePagedKV

LAYOUTS = [PagedKV] + ([NativePagedKV] if native.library() else [])


def naive_attention(q, keys, values, scale, window, softcap):
    """One query [H, D] over all keys [S, J, D] of its row, in float64, one head at a time."""
    heads, head_dim = q.shape
    group = heads // keys.shape[1]
    first = 0 if window is None else max(0, keys.shape[0] - window)
    out = torch.empty(heads, head_dim, dtype=torch.float64)
    for h in range(heads):
        scores = keys[first:, h // group].double() @ q[h].double() * scale
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        out[h] = scores.softmax(0) @ values[first:, h // group].double()
    return out


class Rows:
    """Rows of random tokens fed through a layout step by step, and their true histories."""

    def __init__(self, kv, heads, spec, softcap=None):
        self.kv, self.heads, self.spec, self.softcap = kv, heads, spec, softcap
        self.histories = {}  # row -> list of (k [J, D], v [J, D])

    def new(self):
        row = self.kv.new_row()
        self.histories[id(row)] = []
        return row

    def fork(self, row):
        copy = self.kv.fork(row)
        self.histories[id(copy)] = list(self.histories[id(row)])
        return copy

    def step(self, work, tolerance):
        """`work` is a list of (row, number of tokens). Checks every output."""
        spans = []
        for row, count in work:
            start = len(self.histories[id(row)])
            self.kv.reserve(row, start + count)
            spans.append(RowSpan(row, start, count))
        total = sum(count for _, count in work)
        q = torch.randn(total, self.heads, self.spec.head_dim)
        k, v = (torch.randn(total, self.spec.num_kv_heads, self.spec.head_dim) for _ in range(2))
        plan = self.kv.plan(spans)
        scale = 1 / math.sqrt(self.spec.head_dim)
        out = self.kv.attend(0, q, k, v, plan, scale=scale, softcap=self.softcap)
        t = 0
        for row, count in work:
            history = self.histories[id(row)]
            for _ in range(count):
                history.append((k[t], v[t]))
                keys, values = (torch.stack(part) for part in zip(*history, strict=True))
                expected = naive_attention(q[t], keys, values, scale, self.spec.window, self.softcap)
                torch.testing.assert_close(out[t].double(), expected, rtol=tolerance, atol=tolerance)
                t += 1


SHAPES = [  # heads, key heads, head size, window, softcap
    (9, 3, 64, None, None),
    (4, 4, 16, None, None),
    (8, 1, 40, None, 30.0),
    (32, 1, 8, 50, None),
    (4, 2, 256, 7, 50.0),
    (14, 2, 112, 40, None),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim", "window", "softcap"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_ragged_steps_equal_plain_attention(layout, heads, kv_heads, head_dim, window, softcap, dtype):
    torch.manual_seed(1)
    tolerance = 2e-5 if dtype == torch.float32 else 4e-3
    spec = LayerSpec(kv_heads, head_dim, window)
    rows = Rows(layout([spec], num_blocks=40, dtype=dtype), heads, spec, softcap)
    a, b, c = rows.new(), rows.new(), rows.new()
    rows.step([(a, 5)], tolerance)
    rows.step([(a, 1), (b, 150)], tolerance)
    rows.step([(b, 1), (c, 33), (a, 1)], tolerance)
    rows.step([(b, 31), (c, 2), (a, 60)], tolerance)
    rows.step([(a, 1), (b, 1), (c, 1)], tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_histories_with_forks_trims_and_frees(layout):
    """Copy-on-write: no row ever sees what another wrote after their ways parted."""
    torch.manual_seed(2)
    chooser = random.Random(3)
    spec = LayerSpec(2, 16)
    kv = layout([spec], num_blocks=64)
    rows = Rows(kv, 4, spec)
    alive = [rows.new()]
    for _ in range(120):
        action, row = chooser.random(), chooser.choice(alive)
        held = len(rows.histories[id(row)])
        if action < 0.15 and len(alive) < 6:
            alive.append(rows.fork(row))
        elif action < 0.25 and held:
            keep = chooser.randrange(held)
            kv.trim(row, keep)
            del rows.histories[id(row)][keep:]
        elif action < 0.3 and len(alive) > 1:
            kv.free(row)
            alive.remove(row)
        else:
            group = chooser.sample(alive, chooser.randint(1, len(alive)))
            work = [(r, chooser.choice([1, 1, 1, 7, 40])) for r in group]
            if all(len(rows.histories[id(r)]) + n < 200 for r, n in work):
                rows.step(work, 2e-5)
    for row in alive:
        kv.free(row)
    assert kv.pool.num_free == 64
    assert kv.used_bytes == 0


def test_out_of_memory_changes_nothing():
    kv = PagedKV([LayerSpec(1, 8)], num_blocks=4)
    a, b = kv.new_row(), kv.new_row()
    kv.reserve(a, 3 * BLOCK_SIZE)
    kv.reserve(b, 10)
    before = (list(a.blocks), list(b.blocks), b.num_tokens)
    with pytest.raises(OutOfMemory):
        kv.reserve(b, BLOCK_SIZE + 1)
    assert (a.blocks, b.blocks, b.num_tokens) == before
    fork = kv.fork(b)
    with pytest.raises(OutOfMemory):  # the shared tail would have to be copied
        kv.reserve(fork, 11)
    assert fork.blocks == b.blocks
    kv.free(a)
    kv.reserve(fork, 11)
    assert fork.blocks != b.blocks


def test_garbage_in_unwritten_memory_does_no_harm():
    for layout in LAYOUTS:
        spec = LayerSpec(1, 8)
        kv = layout([spec], num_blocks=4)
        kv.keys[0].fill_(math.nan)
        kv.values[0].fill_(math.nan)
        rows = Rows(kv, 2, spec)
        a, b = rows.new(), rows.new()
        rows.step([(a, 3), (b, 35)], 2e-5)
        rows.step([(a, 1), (b, 1)], 2e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_garbage_beside_many_queries_does_no_harm(layout):
    spec = LayerSpec(1, 16)
    kv = layout([spec], num_blocks=4, dtype=torch.float16)
    kv.keys[0].fill_(math.nan)
    kv.values[0].fill_(math.nan)
    rows = Rows(kv, 2, spec)
    row = rows.new()
    rows.step([(row, 35)], 4e-3)
    rows.step([(row, 12)], 4e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_small_weights_beside_a_large_one_are_not_lost(layout):
    """As with attention sinks: the first key takes most, and what thousands of others add still counts."""
    heads, head_dim, num_keys = 3, 64, 3_000
    kv = layout([LayerSpec(1, head_dim)], num_blocks=100, dtype=torch.float16)
    row = kv.new_row()
    kv.reserve(row, num_keys)
    k, v = torch.zeros(num_keys, 1, head_dim), torch.ones(num_keys, 1, head_dim)
    k[0], v[0] = 1.0, -1.0
    q = torch.full((num_keys, heads, head_dim), 9.0 / head_dim)
    out = kv.attend(0, q, k, v, kv.plan([RowSpan(row, 0, num_keys)]), scale=1.0)
    rest = math.exp(-9.0) * torch.arange(num_keys)  # each of the others weighs e^-9 of the first
    expected = ((rest - 1) / (rest + 1))[:, None, None].expand_as(out)
    torch.testing.assert_close(out, expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_tokens", [3, 60])
@pytest.mark.parametrize(("what", "broken"), [("keys", math.nan), ("values", math.nan), ("values", math.inf)])
def test_what_is_no_number_shows(layout, num_tokens, what, broken):
    torch.manual_seed(4)
    kv = layout([LayerSpec(1, 64)], num_blocks=4, dtype=torch.float16)
    row = kv.new_row()
    kv.reserve(row, num_tokens)
    q = torch.randn(num_tokens, 2, 64)
    k, v = torch.randn(num_tokens, 1, 64), torch.randn(num_tokens, 1, 64)
    (k if what == "keys" else v)[0, 0, 5] = broken
    out = kv.attend(0, q, k, v, kv.plan([RowSpan(row, 0, num_tokens)]), scale=0.1)
    assert not out.isfinite().all(-1).any()
