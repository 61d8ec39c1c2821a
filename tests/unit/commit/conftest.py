from __future__ import annotations

from tests.unit.iceberg.conftest import catalog
from tests.unit.merge.conftest import io, lab

__all__ = ["catalog", "io", "lab"]
