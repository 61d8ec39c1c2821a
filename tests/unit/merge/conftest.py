from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.unit.merge.lab import Lab


@pytest.fixture(scope="session")
def io() -> PyArrowFileIO:
    return PyArrowFileIO()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.make(tmp_path)
