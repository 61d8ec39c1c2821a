"""Asking for a key, and what matters of the answer."""

from __future__ import annotations

import json
from typing import Any

from spark_job.inspect.explain.explain_key import explain_key
from spark_job.inspect.explain.report import EventReport, ExplainReport
from tests.lab.lab import Lab


def explain(lab: Lab, key: Any) -> ExplainReport:
    """All that is known of a key."""
    return explain_key(lab.pipeline, lab.table, json.dumps(key))


def event(report: ExplainReport, name: str) -> EventReport:
    """The event with this name."""
    (found,) = [one for one in report.events if one.values and one.values["name"] == name]
    return found


def fates(report: ExplainReport) -> list[str]:
    """What each event did or will do, in the order of events."""
    return [one.will.value if one.will else one.fate.value for one in report.events]


def kinds(report: ExplainReport) -> list[str]:
    """The differences."""
    assert report.equal is not bool(report.findings)
    return [one.kind.value for one in report.findings]


def has_note(report: ExplainReport, words: str) -> bool:
    """Whether a note has these words."""
    return any(words in note for note in report.notes)
