"""Random numbers depend on their key and on nothing else, and are uniform along every part of it."""

import itertools

import pytest

from stoker.engine.sampling.randomness import Purpose, RandomStream

# 0.999 quantile of chi-square with 9 degrees of freedom, from the usual tables.
CHI_SQUARE_9 = 27.88


def chi_square_of_tenths(numbers: list[float]) -> float:
    expected = len(numbers) / 10
    counts = [0] * 10
    for number in numbers:
        counts[int(number * 10)] += 1
    return sum((count - expected) ** 2 / expected for count in counts)


@pytest.mark.parametrize("seed", [0, 1, -1, 127, 128, 255, -128, 2**63, 2**64 - 1, -(2**64), 10**500])
def test_any_integer_is_a_seed_and_repeats(seed: int) -> None:
    first, second = RandomStream(seed), RandomStream(seed)
    numbers = [first.uniform(position, Purpose.TOKEN) for position in range(20)]
    assert numbers == [second.uniform(position, Purpose.TOKEN) for position in range(20)]
    assert all(0 <= number < 1 for number in numbers)


def test_order_of_calls_does_not_matter() -> None:
    forwards, backwards = RandomStream(3), RandomStream(3)
    ascending = [forwards.uniform(position, Purpose.TOKEN) for position in range(10)]
    descending = [backwards.uniform(position, Purpose.TOKEN) for position in reversed(range(10))]
    assert ascending == descending[::-1]


def test_every_part_of_the_key_counts() -> None:
    seeds = [0, 1, -1, 255, 256, -256, 2**64, 2**64 + 1, 2**128]
    keys = list(itertools.product(seeds, range(8), range(10), Purpose))
    numbers = {RandomStream(seed, choice).uniform(at, why) for seed, choice, at, why in keys}
    assert len(numbers) == len(keys)


def test_without_a_seed_streams_differ() -> None:
    assert len({RandomStream(None).uniform(0, Purpose.TOKEN) for _ in range(100)}) == 100


def test_uniform_along_positions_seeds_and_choices() -> None:
    stream = RandomStream(11)
    along_positions = [stream.uniform(position, Purpose.TOKEN) for position in range(5000)]
    along_seeds = [RandomStream(seed).uniform(0, Purpose.TOKEN) for seed in range(5000)]
    along_choices = [RandomStream(5, choice).uniform(7, Purpose.XTC) for choice in range(5000)]
    for numbers in (along_positions, along_seeds, along_choices):
        assert chi_square_of_tenths(numbers) < CHI_SQUARE_9


def test_purposes_are_independent() -> None:
    stream = RandomStream(2)
    differences = [
        (stream.uniform(position, Purpose.TOKEN) - stream.uniform(position, Purpose.XTC)) % 1
        for position in range(5000)
    ]
    assert chi_square_of_tenths(differences) < CHI_SQUARE_9
