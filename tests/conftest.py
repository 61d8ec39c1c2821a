"""Shared by all tests: their order, and fixtures for optional dependencies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests import maven, pyspark35
from tests.need import do_without
from tests.need import need as need_or_skip
from tests.readable_ids import readable_id
from tests.unit.guard import guard

TESTS = Path(__file__).parent

# Before any module of the product, which may take `time.sleep` as a default.
guard.install()

# Several test processes inherit the terminal's width, to which commands would fit their tables.
os.environ.pop("COLUMNS", None)

# The duration of an example depends more on the machine's load than on the code.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None, max_examples=2000)  # `make soak`
settings.load_profile("fixed")

# What fails fast comes first. A folder that is not named here comes last.
FOLDERS = ("unit", "tables", "processes", "sim", "spark", "services", "interop", "infra", "browser")


def folder_rank(path: Path) -> int:
    """The place of a test's folder in the order."""
    folder = _folder(path)
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


# What several processes begin with: tests that take long and have to be done when the others are.
LONG = ("interop", "services", "infra", "spark", "sim", "processes", "tables")
# Folders whose tests share servers: one process runs them all, and starts each server once.
TOGETHER = ("interop", "services")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run folder by folder, the quick ones first; or, in several processes, those that take longest."""
    items.sort(key=lambda item: folder_rank(item.path))
    if hasattr(config, "workerinput"):
        long = {folder: rank for rank, folder in enumerate(LONG)}
        items.sort(key=lambda item: long.get(_folder(item.path), len(LONG)))


class _Scheduling(LoadFileScheduling):
    """Gives a process all tests of a file, or of a folder."""

    def _split_scope(self, nodeid: str) -> str:
        folder = _folder(TESTS.parent / nodeid.split("::", 1)[0])
        return folder if folder in TOGETHER else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Scheduling:
    """How several processes share the tests."""
    return _Scheduling(config, log)


def _folder(path: Path) -> str:
    return path.relative_to(TESTS).parts[0]


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name values that pytest would number."""
    return readable_id(val)


@pytest.fixture
def need() -> Callable[[object, str], object]:
    """`need(thing, reason)`: skips where the thing is None or False, fails under CI=true, else returns it."""
    return need_or_skip


@pytest.fixture
def tmp_warehouse(tmp_path: Path) -> Path:
    """An empty folder for a catalog and its tables."""
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    return warehouse


@pytest.fixture(scope="session")
def maven_jar() -> Callable[[str], Path]:
    """The jar of `group:artifact:version`, from the cache or fetched; see `need` where it cannot be had."""

    def fetch(coordinates: str) -> Path:
        try:
            return maven.jar(coordinates)
        except maven.Unavailable as error:
            do_without(f"no {coordinates}: {error}")

    return fetch


@pytest.fixture(scope="session")
def pyspark35_folder() -> Path:
    """PySpark 3.5 for PYTHONPATH, from the cache or installed; see `need` where it cannot be had."""
    try:
        return pyspark35.pyspark35_path()
    except pyspark35.Unavailable as error:
        do_without(f"no PySpark 3.5: {error}")
