"""What docs/events.md describes is what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from trigger.sources.parse_hints import parse_hints
from trigger.sources.refusal import RefusalReason

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "events.md").read_text()
TELEMETRY = (Path(__file__).parents[4] / "docs" / "reference" / "telemetry.md").read_text()


def test_the_plain_forms_are_understood() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines():
        assert parse_hints(json.dumps(json.loads(line)).encode())


def test_every_reason_is_explained() -> None:
    assert all(f"`{reason}`" in TELEMETRY for reason in RefusalReason)
