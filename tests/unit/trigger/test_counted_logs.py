"""Terraform counts lines of the function's log by their words: what is counted there must be what the code writes."""

from __future__ import annotations

import re
from pathlib import Path

from icemirror.state.rows import TableRow
from trigger.standing import standing

ROOT = Path(__file__).parents[3]
FILTERS = (ROOT / "infra/terraform/modules/observability/main.tf").read_text(encoding="utf-8")


def test_every_log_line_that_terraform_counts_is_written_by_the_trigger() -> None:
    counted = set(re.findall(r'\$\.event = \\"([^"\\]+)\\"', FILTERS))
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "trigger").rglob("*.py"))
    assert len(counted) > 5
    assert {words for words in counted if f'"{words}"' not in code} == set()


def test_every_number_that_terraform_takes_from_a_sweep_is_told_by_it() -> None:
    taken = set(re.findall(r'value\s*=\s*"\$\.(\w+)"', FILTERS))
    assert taken
    assert taken <= standing([TableRow("shop.orders")], 0.0).keys()
