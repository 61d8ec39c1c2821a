"""A lab whose changelog has truncations: `T@7` has sequence 7, `T@` has none; neither has a key."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from icemirror.protocol.replay import Replay
from icemirror.tables.cursor import Truncation
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import Engine, InProcessEngine
from spark_job.iceberg.mirror import read_mirror
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import ID_AND_NAME, Lab, events, rows_table, sequence_text

VALUES = "operation_values: {insert: [INSERT], update: [UPDATE], delete: [DELETE], truncate: [TRUNCATE]}"
NULLABLE = Schema(*(field.model_copy(update={"required": False}) for field in ID_AND_NAME.fields))
_TRUNCATION = re.compile(r"T@(\d*)")


def make(folder: Path, options: str = "", batch: int = 3, *, engine: Engine | None = None) -> Lab:
    """Create a lab with an empty changelog and slices of `batch` events."""
    extra_config = f"batch_size: {batch}\n"
    return Lab.make(
        folder, options=f"{VALUES}\n{options}", extra_config=extra_config, engine=engine or InProcessEngine(2)
    )


def file_of(words: str) -> pa.Table:
    """Parse a file of events and truncations."""
    tables: list[pa.Table] = []
    for word in words.split():
        if (truncation := _TRUNCATION.fullmatch(word)) is None:
            tables.append(events(word))
            continue
        sequence = sequence_text(int(truncation[1])) if truncation[1] else None
        tables.append(
            rows_table(
                NULLABLE,
                [{"id": None, "name": None, "cdc_operation": "TRUNCATE", "sequence_number": sequence}],
            )
        )
    schema = rows_table(NULLABLE, []).schema
    return pa.concat_tables([table.cast(schema) for table in tables])


def commit_events(lab: Lab, *files: str) -> int:
    """Commit to the changelog, one file per text. Return the snapshot id."""
    return lab.commit(*(file_of(words) for words in files))


def followed(lab: Lab) -> Truncation | None:
    """Return the last truncation in the mirror's cursor."""
    cursor = read_mirror(lab.mirror, "lab.world").cursor
    return cursor.source.truncated if cursor else None


def filled(folder: Path, options: str = "", batch: int = 3) -> Lab:
    """Create a lab whose mirror has three rows."""
    lab = make(folder, options, batch)
    commit_events(lab, "I1@1 I2@1", "I3@1")
    commit_events(lab, "U1@2=b D2@2 I4@2")
    lab.merge()
    assert lab.rows() == {1: "b", 3: "I3@1", 4: "I4@2"}
    return lab


def is_verified(lab: Lab) -> bool:
    """Check that rows, index and changelog agree."""
    return verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


def rebuild_now(lab: Lab) -> None:
    """Rebuild the mirror as `icemirror replay --full` requests it."""
    replay = Replay(id="full-1", full=True, requested_at=0.0)
    for _ in range(30):
        step = replay_step(lab.pipeline, lab.table, replay)
        if step.done:
            return
        replay = replace(replay, progress=step.progress)
    pytest.fail("not done")
