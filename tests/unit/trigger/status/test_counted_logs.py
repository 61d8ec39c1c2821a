"""Terraform's metric filters match log lines of the function: each must be written by the code."""

from __future__ import annotations

import re
from pathlib import Path

from icemirror.protocol.rows import TableRow
from trigger.handler import summarize_tables

ROOT = Path(__file__).parents[4]
FILTERS = (ROOT / "infra/terraform/modules/observability/main.tf").read_text(encoding="utf-8")


def test_every_log_line_counted_by_terraform_is_written_by_the_trigger() -> None:
    counted = set(re.findall(r'\$\.event = \\"([^"\\]+)\\"', FILTERS))
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "trigger").rglob("*.py"))
    assert len(counted) > 5
    assert {event for event in counted if f'"{event}"' not in code} == set()


def test_sweep_logs_every_number_that_terraform_extracts() -> None:
    extracted = set(re.findall(r'value\s*=\s*"\$\.(\w+)"', FILTERS))
    assert extracted
    assert extracted <= summarize_tables([TableRow("shop.orders")], 0.0).keys()
