"""A mirror that flags deleted rows instead of removing them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_job.engine.engine import InProcessEngine
from tests.lab.lab import Lab

SOFT = "delete_mode: soft"
FLAG = "_is_deleted"


def make(folder: Path, options: str = "", extra_config: str = "", shards: int = 1) -> Lab:
    """Create a lab with soft deletes and an empty changelog."""
    return Lab.make(
        folder, options=f"{SOFT}\n{options}", extra_config=extra_config, engine=InProcessEngine(shards)
    )


def flagged_rows(lab: Lab) -> dict[int, tuple[Any, Any]]:
    """Return name and flag by key."""
    rows = lab.mirror.scan().to_arrow().to_pylist()
    by_key = {row["id"]: (row["name"], row[FLAG]) for row in rows}
    assert len(by_key) == len(rows), "a key has two rows"
    return by_key
