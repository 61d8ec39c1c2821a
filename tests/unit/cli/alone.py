"""A command in a process that remembers nothing of the files, and has no Spark."""

from __future__ import annotations

import pytest

from icemirror.cli import console
from spark_job import wiring
from spark_job.files.immutable import ReadOnce
from spark_job.iceberg import mirror as mirror_module
from spark_job.key_index import blocks


def be_alone(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """For the test; `width` is that of what it prints."""

    def refuse(_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(wiring, "open_spark", refuse)
    monkeypatch.setattr(blocks, "_directories", ReadOnce(0))
    monkeypatch.setattr(mirror_module, "_roots", ReadOnce(0))
    monkeypatch.setattr(console.out, "_width", width)
