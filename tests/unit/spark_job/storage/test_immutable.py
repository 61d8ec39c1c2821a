"""What is remembered of files that never change, and for how long."""

from __future__ import annotations

from collections.abc import Callable

from spark_job.storage.immutable_cache import FileCache, clear_file_caches


class Files:
    """Counts how often each is read."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def reader(self, path: str) -> Callable[[], str]:
        def read() -> str:
            self.reads.append(path)
            return f"content of {path}"

        return read


def ask(cache: FileCache[str], files: Files, *paths: str) -> list[str]:
    return [cache.get(path, files.reader(path)) for path in paths]


def test_a_file_is_read_once() -> None:
    cache, files = FileCache[str](10), Files()
    assert ask(cache, files, "a", "a", "b", "a") == [f"content of {path}" for path in "aaba"]
    assert files.reads == ["a", "b"]


def test_what_was_not_asked_for_the_longest_time_goes_first() -> None:
    cache, files = FileCache[str](2), Files()
    ask(cache, files, "a", "b", "a", "c", "a", "b")
    assert files.reads == ["a", "b", "c", "b"]


def test_contents_count_by_their_weight() -> None:
    cache, files = FileCache[str](40, len), Files()
    ask(cache, files, "a", "b", "c", "a", "long" * 5, "c", "a")
    assert files.reads == ["a", "b", "c", "long" * 5, "c", "a"]


def test_what_weighs_more_than_all_may_is_read_every_time() -> None:
    cache, files = FileCache[str](5, len), Files()
    ask(cache, files, "a", "a")
    assert files.reads == ["a", "a"]


def test_what_somebody_has_written_need_not_be_read() -> None:
    cache, files = FileCache[str](2), Files()
    for content in ("first", "second", "third"):
        cache.put("a", content)
    cache.put("b", "other")
    assert ask(cache, files, "a", "b") == ["third", "other"]
    assert files.reads == []


def test_nothing_is_remembered_after_everything_was_forgotten() -> None:
    cache, files = FileCache[str](10), Files()
    ask(cache, files, "a")
    clear_file_caches()
    ask(cache, files, "a", "a")
    assert files.reads == ["a", "a"]


def test_a_read_that_fails_is_tried_again() -> None:
    cache, files = FileCache[str](10), Files()

    def fail() -> str:
        raise OSError("gone")

    for _ in range(2):
        try:
            cache.get("a", fail)
        except OSError:
            files.reads.append("failed")
    assert ask(cache, files, "a") == ["content of a"]
    assert files.reads == ["failed", "failed", "a"]
