"""The result of `merge_table` after a failure."""

from __future__ import annotations

from typing import Any

import pytest

from icemirror.errors import Kind, Transient
from spark_job.pipeline import Pipeline
from tests.lab.lab import Lab


def test_unexpected_error_reports_type_location_and_debug_setting(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("the value of a row")

    monkeypatch.setattr(Pipeline, "advance", fail)
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.UNEXPECTED
    assert error.message.startswith("unexpected ZeroDivisionError at tests.")
    assert error.message.endswith("; ICEMIRROR_DEBUG=1 shows details")


def test_failure_after_a_commit_reports_cursor_and_rows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = Pipeline.advance, [0]

    def fail_later(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] > 1:
            raise Transient("the catalog is unreachable")
        return real(*arguments)

    monkeypatch.setattr(Pipeline, "advance", fail_later)
    lab.commit_events("I1@1", "I2@2")
    result = lab.try_merge()
    assert (result.outcome, len(result.slices)) == ("failed", 1)
    assert result.live_rows == 2
    assert result.cursor is not None
