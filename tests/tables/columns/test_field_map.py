"""The field map in the mirror's properties."""

from __future__ import annotations

import json
from pathlib import Path

from tests.lab.lab import Lab


def test_field_map_is_plain_json(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    assert json.loads(lab.mirror.metadata.properties["icemirror.field-map"]) == {"1": 1, "2": 2}
