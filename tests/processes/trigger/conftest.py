from __future__ import annotations

from tests.unit.trigger.conftest import scene

__all__ = ["scene"]
