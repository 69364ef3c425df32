"""Bit masks against a mask spelled out token by token."""

import numpy as np
import pytest

from stoker.engine.sampling.masks import forbid


@pytest.mark.parametrize(("vocabulary", "words"), [(64, 2), (70, 3), (70, 2), (33, 4), (1, 1), (5000, 157)])
def test_each_token_has_its_bit(vocabulary: int, words: int) -> None:
    source = np.random.default_rng(vocabulary + words)
    allowed = source.integers(0, 2**32, words, dtype=np.uint32)
    logits = source.normal(size=vocabulary).astype(np.float32)
    expected = [
        float(logit) if i < 32 * words and int(allowed[i // 32]) >> (i % 32) & 1 else -np.inf
        for i, logit in enumerate(logits)
    ]
    before = allowed.copy()
    forbid(logits, allowed)
    assert logits.tolist() == expected
    assert np.array_equal(allowed, before)
