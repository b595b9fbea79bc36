"""Caches stay within their bounds."""

from __future__ import annotations

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache, LruCache


def test_the_least_recently_used_go_first() -> None:
    cache: LruCache[str, str] = LruCache(100, lambda key, _value: len(key))
    for number in range(50):
        cache.put(f"{number:030}", "x")
        assert cache.get(f"{0:030}") == "x"
    assert len(cache) == 3
    assert cache.get(f"{48:030}") == cache.get(f"{49:030}") == "x"
    cache.put("x" * 101, "y")
    assert cache.get("x" * 101) is None
    assert len(cache) == 3


def test_one_that_is_full_starts_anew() -> None:
    cache: BoundedCache[int, str] = BoundedCache(3, 10, lambda _, text: len(text))
    for number in range(4):
        cache[number] = "ab"
    assert cache == {3: "ab"}
    cache[4] = "a" * 9
    assert cache == {4: "a" * 9}
