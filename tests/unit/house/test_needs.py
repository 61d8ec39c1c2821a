"""Requirements of tests, the cache of downloads, and the order of test folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FOLDERS, TESTS, folder_rank
from tests.provision.cache import cache_directory, fetch_once
from tests.support.need import need


def test_need_returns_an_available_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert need("/usr/bin/chromium", "no Chromium") == "/usr/bin/chromium"
    assert need(0, "zero is something") == 0


@pytest.mark.parametrize("missing", [None, False])
def test_missing_thing_skips_on_a_users_machine_and_fails_in_ci(
    missing: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ci, expected in (("", pytest.skip.Exception), ("true", pytest.fail.Exception)):
        monkeypatch.setenv("CI", ci)
        # Both are caught, because a wrong skip would skip this test.
        with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match="no Chromium") as caught:
            need(missing, "no Chromium")
        assert type(caught.value) is expected


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "icemirror"


def test_cache_is_in_the_users_cache_folder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_directory() == cache
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/nowhere")
    assert cache_directory() == Path("/nowhere/.cache/icemirror")


def test_failed_download_leaves_no_file_and_is_retried(cache: Path) -> None:
    def broken(scratch: Path) -> Path:
        (scratch / "x").write_text("half")
        raise OSError("the line went dead")

    def works(scratch: Path) -> Path:
        (scratch / "x").write_text("whole")
        return scratch / "x"

    with pytest.raises(OSError, match="went dead"):
        fetch_once("a.jar", broken)
    assert [path.name for path in cache.iterdir()] == ["a.jar.lock"]
    assert fetch_once("a.jar", works).read_text() == "whole"


def test_quick_folders_run_first_and_unknown_ones_last() -> None:
    ranks = [folder_rank(TESTS / name / "test_x.py") for name in (*FOLDERS, "something_new")]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)


def test_each_test_has_an_empty_warehouse(tmp_warehouse: Path, tmp_path: Path) -> None:
    assert list(tmp_warehouse.iterdir()) == []
    assert tmp_warehouse.parent == tmp_path
