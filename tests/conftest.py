"""What all tests share: the order of the folders, and the fixtures that say what a test needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import maven, pyspark35
from tests.need import do_without
from tests.need import need as need_or_skip

TESTS = Path(__file__).parent

# What fails fast comes first. A folder that is not named here comes last.
FOLDERS = ("unit", "sim", "spark", "services", "interop", "infra", "browser")


def folder_rank(path: Path) -> int:
    """The place of a test's folder in the order."""
    folder = path.relative_to(TESTS).parts[0]
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run folder by folder; inside of a folder nothing moves."""
    items.sort(key=lambda item: folder_rank(item.path))


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
