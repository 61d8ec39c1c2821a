"""docs/how-to/events.md and docs/reference/telemetry.md match the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from trigger.sources.parse_hints import parse_hints
from trigger.sources.refusal import RefusalReason

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "events.md").read_text()
TELEMETRY = (Path(__file__).parents[4] / "docs" / "reference" / "telemetry.md").read_text()


def test_documented_json_forms_are_parsed() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines():
        assert parse_hints(json.dumps(json.loads(line)).encode())


def test_every_refusal_reason_is_documented() -> None:
    assert all(f"`{reason}`" in TELEMETRY for reason in RefusalReason)
