"""Bounds of the store: an hour, and bytes with the least recently used going first."""

from dataclasses import dataclass

from stoker.api.response_store import ResponseStore


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_is_put_can_be_read_and_deleted() -> None:
    store = ResponseStore()
    store.put("a", b"12345")
    assert store.get("a") == b"12345"
    assert store.counters() == {"entries": 1, "bytes": 6, "max_bytes": 32 << 20, "ttl_ms": 3_600_000}
    assert store.delete("a")
    assert not store.delete("a")
    assert store.get("a") is None
    assert store.counters()["bytes"] == 0


def test_an_hour_from_creation_even_when_read() -> None:
    clock = Clock()
    store = ResponseStore(clock=clock)
    store.put("a", b"1")
    clock.now += 3599
    assert store.get("a") == b"1"
    clock.now += 1
    assert store.get("a") is None
    assert store.counters()["entries"] == 0


def test_the_least_recently_used_goes_first() -> None:
    store = ResponseStore(max_bytes=30)
    for name in "abc":
        store.put(name, b"x" * 9)
    store.get("a")
    store.put("d", b"x" * 9)
    assert [store.get(name) is not None for name in "abcd"] == [True, False, True, True]
    assert store.counters()["bytes"] == 30


def test_replacing_counts_once() -> None:
    store = ResponseStore()
    store.put("a", b"12345")
    store.put("a", b"1")
    assert store.counters()["bytes"] == 2


def test_an_entry_larger_than_the_store_displaces_nothing() -> None:
    store = ResponseStore(max_bytes=10)
    store.put("a", b"1")
    store.put("b", b"x" * 10)
    assert store.get("a") == b"1"
    assert store.get("b") is None
