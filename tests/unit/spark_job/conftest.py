from __future__ import annotations

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO


@pytest.fixture(scope="session")
def io() -> PyArrowFileIO:
    return PyArrowFileIO()
