"""Values are kept for one version of their inputs, and as many as fit."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from common.versioned_cache import VersionedCache


def test_cached_value_is_computed_once_for_each_version() -> None:
    cache, computed = VersionedCache[str, int](), list[int]()

    def count() -> int:
        computed.append(1)
        return len(computed)

    assert [cache.get("a", version, count) for version in (1, 1, 2, 2)] == [1, 1, 2, 2]
    assert cache.get("a", 1, count) == 3
    assert (cache.last("a"), cache.kept("a", 2), cache.last("b")) == (3, None, None)


def test_cache_evicts_least_recently_used_values_first() -> None:
    cache = VersionedCache[str, str](6, len)
    assert not cache.put("a", None, "xxx")
    assert not cache.put("b", None, "xxx")
    assert cache.kept("a", None) == "xxx"
    assert cache.put("c", None, "xx")
    assert cache.keys() == ["a", "c"]
    assert cache.pop("a") == "xxx"
    assert not cache.put("d", None, "xxxx")
    assert cache.keys() == ["c", "d"]


def test_cache_keeps_the_last_value_whatever_its_size() -> None:
    cache = VersionedCache[str, str](1, len)
    cache.put("a", None, "x")
    assert cache.put("b", None, "xxx")
    assert cache.keys() == ["b"]
    assert not cache.put("b", None, "xx")


def test_value_that_two_threads_put_at_once_is_counted_once() -> None:
    both = Barrier(2)

    class Slow(VersionedCache[str, str]):
        def pop(self, key: str) -> str | None:
            value = super().pop(key)
            both.wait(60)
            return value

    cache = Slow(3, len)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda it: cache.put("a", None, it), "xy"))
    assert not any([cache.put("b", None, "x"), cache.put("c", None, "x")])
