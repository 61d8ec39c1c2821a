"""The cache of files that never change: reads, eviction and weights."""

from __future__ import annotations

from collections.abc import Callable

from spark_job.storage.file_cache import FileCache, clear_file_caches


class Files:
    """Counts the reads of each path."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def reader(self, path: str) -> Callable[[], str]:
        def read() -> str:
            self.reads.append(path)
            return f"content of {path}"

        return read


def get_all(cache: FileCache[str], files: Files, *paths: str) -> list[str]:
    return [cache.get(path, files.reader(path)) for path in paths]


def test_file_is_read_once() -> None:
    cache, files = FileCache[str](10), Files()
    assert get_all(cache, files, "a", "a", "b", "a") == [f"content of {path}" for path in "aaba"]
    assert files.reads == ["a", "b"]


def test_least_recently_used_content_is_evicted_first() -> None:
    cache, files = FileCache[str](2), Files()
    get_all(cache, files, "a", "b", "a", "c", "a", "b")
    assert files.reads == ["a", "b", "c", "b"]


def test_contents_are_counted_by_weight() -> None:
    cache, files = FileCache[str](40, len), Files()
    get_all(cache, files, "a", "b", "c", "a", "long" * 5, "c", "a")
    assert files.reads == ["a", "b", "c", "long" * 5, "c", "a"]


def test_content_heavier_than_the_cache_is_not_cached() -> None:
    cache, files = FileCache[str](5, len), Files()
    get_all(cache, files, "a", "a")
    assert files.reads == ["a", "a"]


def test_stored_content_is_not_read() -> None:
    cache, files = FileCache[str](2), Files()
    for content in ("first", "second", "third"):
        cache.put("a", content)
    cache.put("b", "other")
    assert get_all(cache, files, "a", "b") == ["third", "other"]
    assert files.reads == []


def test_cleared_cache_is_empty() -> None:
    cache, files = FileCache[str](10), Files()
    get_all(cache, files, "a")
    clear_file_caches()
    get_all(cache, files, "a", "a")
    assert files.reads == ["a", "a"]


def test_failed_read_is_not_cached() -> None:
    cache, files = FileCache[str](10), Files()

    def fail() -> str:
        raise OSError("gone")

    for _ in range(2):
        try:
            cache.get("a", fail)
        except OSError:
            files.reads.append("failed")
    assert get_all(cache, files, "a") == ["content of a"]
    assert files.reads == ["failed", "failed", "a"]
