"""Shared by all tests: their order, and fixtures for optional dependencies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests.provision import maven, python_packages
from tests.provision.cache import Unavailable
from tests.support.need import do_without
from tests.support.need import need as need_or_skip
from tests.support.readable_ids import readable_id
from tests.unit.guard import guard

TESTS = Path(__file__).parent

# Before any product module is imported: some bind `time.sleep` as a default.
guard.install()

# With several processes, commands would format their tables to the terminal's width.
os.environ.pop("COLUMNS", None)

# The duration of an example depends more on the machine's load than on the code.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None, max_examples=2000)  # `make soak`
settings.load_profile("fixed")

# Fast folders run first, folders that are not listed run last.
FOLDERS = ("unit", "tables", "processes", "sim", "spark", "services", "interop", "infra", "browser")


def folder_rank(path: Path) -> int:
    """Return the position of a test's folder in the run order."""
    folder = _folder(path)
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


# With several processes, the longest folders run first, so that no process ends late.
LONGEST_FIRST = ("interop", "services", "infra", "spark", "sim", "processes", "tables")
# Folders whose tests share servers: one process runs each, and starts every server once.
SHARED_SERVERS = ("interop", "services")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run fast folders first; with several processes, the longest first."""
    items.sort(key=lambda item: folder_rank(item.path))
    if hasattr(config, "workerinput"):
        long = {folder: rank for rank, folder in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: long.get(_folder(item.path), len(LONGEST_FIRST)))


class _Scheduling(LoadFileScheduling):
    """Assigns all tests of a file, or of a folder with shared servers, to one process."""

    def _split_scope(self, nodeid: str) -> str:
        folder = _folder(TESTS.parent / nodeid.split("::", 1)[0])
        return folder if folder in SHARED_SERVERS else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Scheduling:
    """Return the scheduler for several processes."""
    return _Scheduling(config, log)


def _folder(path: Path) -> str:
    return path.relative_to(TESTS).parts[0]


def pytest_make_parametrize_id(val: object) -> str | None:
    """Return a readable id for values that pytest would number."""
    return readable_id(val)


@pytest.fixture
def need() -> Callable[[object, str], object]:
    """`need(thing, reason)` returns the thing; if it is None or False, it skips, or fails under CI=true."""
    return need_or_skip


@pytest.fixture
def tmp_warehouse(tmp_path: Path) -> Path:
    """An empty folder for a catalog and its tables."""
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    return warehouse


@pytest.fixture(scope="session")
def maven_jar() -> Callable[[str], Path]:
    """Return the jar of `group:artifact:version`, cached or fetched; skip or fail if it is unavailable."""

    def fetch(coordinates: str) -> Path:
        try:
            return maven.jar(coordinates)
        except Unavailable as error:
            do_without(f"no {coordinates}: {error}")

    return fetch


@pytest.fixture(scope="session")
def pyspark35_folder() -> Path:
    """Return a folder with PySpark 3.5 for PYTHONPATH; skip or fail if it is unavailable."""
    try:
        return python_packages.pyspark35()
    except Unavailable as error:
        do_without(f"no PySpark 3.5: {error}")
