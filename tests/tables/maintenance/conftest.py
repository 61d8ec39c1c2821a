from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import Lab
from tests.lab.samples import UnsteadyCatalog

SMALL = """table_properties:
  icemirror.max-snapshots: "5"
  history.expire.min-snapshots-to-keep: "2"
  write.metadata.previous-versions-max: "3"
  commit.manifest.min-count-to-merge: "3"
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A mirror that keeps five snapshots."""
    return Lab.make(tmp_path, options=SMALL)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[UnsteadyCatalog]:
    catalog = UnsteadyCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("ns")
    yield catalog
    catalog.close()
