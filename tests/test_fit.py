"""The fit estimate is plain arithmetic; here it is done by hand."""

from __future__ import annotations

from stoker.fit import Fit, transient_bytes

FIT = Fit(usable_bytes=10_000, weights_bytes=4_000, transient_bytes=1_000, token_bytes=10, window=600)


def test_context_is_what_the_rest_of_the_memory_holds():
    assert FIT.kv_room_bytes == 5_000
    assert FIT.max_safe_context == 500
    assert FIT.fits(500)
    assert not FIT.fits(501)
    assert FIT.total_bytes(500) == 10_000


def test_it_is_never_more_than_the_model_can_use():
    assert Fit(10**9, 4_000, 1_000, 10, 600).max_safe_context == 600


def test_no_room_at_all():
    fit = Fit(4_500, 4_000, 1_000, 10, 600)
    assert (fit.kv_room_bytes, fit.max_safe_context, fit.fits(1)) == (0, 0, False)


def test_speed_is_bandwidth_over_what_a_step_reads():
    assert FIT.decode_tps(0.000_05, 100) == 50_000 / (4_000 + 1_000)
    assert Fit(0, 0, 0, 1, 0).decode_tps(10, 0) == 0.0


def test_transient_memory():
    figures = {"vocab_size": 1000, "hidden_size": 8, "intermediate_size": 16}
    # 12 tokens of 6*8 + 3*16 floats, and two sets of logits for each of two rows
    assert transient_bytes(max_rows=2, prefill_chunk=10, **figures) == 4 * (12 * 96 + 2 * 2 * 1000)
