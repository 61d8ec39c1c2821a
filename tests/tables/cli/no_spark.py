"""Runs a command with empty file caches, and fails if the command starts Spark."""

from __future__ import annotations

import pytest

from icemirror.cli.terminal import console
from spark_job.iceberg import mirror as mirror_module
from spark_job.index import blocks
from spark_job.storage.file_cache import FileCache
from spark_job.worker import wiring


def forbid_spark(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Empty the caches, forbid Spark, and set the width of the output."""

    def refuse(_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(wiring, "open_spark", refuse)
    monkeypatch.setattr(blocks, "_directories", FileCache(0))
    monkeypatch.setattr(mirror_module, "_roots", FileCache(0))
    monkeypatch.setattr(console.out, "_width", width)
