from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.iceberg.samples import UnsteadyCatalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[UnsteadyCatalog]:
    catalog = UnsteadyCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("ns")
    yield catalog
    catalog.close()
