"""Explain a key, and read the report."""

from __future__ import annotations

import json
from typing import Any

from spark_job.commands.explain.explain_key import explain_key
from spark_job.commands.explain.report import EventReport, ExplainReport
from tests.lab.lab import Lab


def explain(lab: Lab, key: Any) -> ExplainReport:
    """Return the report for this key."""
    return explain_key(lab.pipeline, lab.table, json.dumps(key))


def event(report: ExplainReport, name: str) -> EventReport:
    """Return the only event whose row has this name."""
    (match,) = [item for item in report.events if item.values and item.values["name"] == name]
    return match


def fates(report: ExplainReport) -> list[str]:
    """Return the past or expected effect of each event, in order."""
    return [item.will.value if item.will else item.fate.value for item in report.events]


def kinds(report: ExplainReport) -> list[str]:
    """Return the kinds of the findings."""
    assert report.equal is not bool(report.findings)
    return [finding.kind.value for finding in report.findings]


def has_note(report: ExplainReport, words: str) -> bool:
    """Return whether a note contains these words."""
    return any(words in note for note in report.notes)
