from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.lab.lab import Lab
from tests.lab.samples import UnsteadyCatalog


@pytest.fixture(scope="session")
def io() -> PyArrowFileIO:
    return PyArrowFileIO()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.make(tmp_path)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[UnsteadyCatalog]:
    catalog = UnsteadyCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("ns")
    yield catalog
    catalog.close()
