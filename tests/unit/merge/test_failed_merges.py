"""What `merge_table` makes of a failure."""

from __future__ import annotations

import pytest

from icemirror.errors import Kind
from spark_job.pipeline import Pipeline
from tests.unit.merge.lab import Lab


def test_an_unexpected_error_is_told_by_type_and_place_and_with_how_to_learn_more(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("the value of a row")

    monkeypatch.setattr(Pipeline, "advance", fail)
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.UNEXPECTED
    assert error.message.startswith("unexpected ZeroDivisionError at tests.")
    assert error.message.endswith("; ICEMIRROR_DEBUG=1 shows more")
