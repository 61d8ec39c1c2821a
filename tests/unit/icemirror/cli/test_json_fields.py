"""docs/reference/commands.md lists exactly the fields of JSON results."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from icemirror.config_file.load import load_settings
from icemirror.errors import Kind
from icemirror.protocol.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.protocol.rows import Rows, TableRow
from icemirror.result import ErrorResult, PlanResult, TableResult
from icemirror.step_results import MirrorStatus
from icemirror.tables.cursor import Cursor, CursorSource, Truncation
from tests.lab.mirrored_world import write_config
from tests.unit.icemirror.protocol.samples import RUN
from trigger.status.table_status import table_status

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "commands.md"
ERROR = ErrorResult(kind=Kind.INVALID, message="m")
SOURCE = CursorSource(uuid="u", snapshot_id=1, sequence_number=1)


def documented(command: str) -> set[str]:
    """Return the fields in the docs table of a command."""
    (section,) = re.findall(rf"^### {command} --json\n(.*?)^##", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    cells = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    found = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    assert len(found) == len(set(found))
    return set(found)


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the fields of a model and its nested models; `[]` marks lists."""
    for name, field in model.model_fields.items():
        inner, many = model_in(field.annotation)
        path = f"{prefix}{name}{'[]' if many else ''}"
        if inner is Truncation:
            yield path
        elif inner is not None:
            yield path
            yield from fields_of(inner, f"{path}.")
        else:
            yield path.removesuffix("[]")


def model_in(annotation: object) -> tuple[type[BaseModel] | None, bool]:
    """Return the model of a field, and whether the field is a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    many = typing.get_origin(annotation) is tuple
    for argument in typing.get_args(annotation):
        inner, nested_many = model_in(argument)
        if inner is not None:
            return inner, many or nested_many
    return None, False


def keys_of(value: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the keys of an object and its nested objects."""
    for name, inner in value.items():
        yield f"{prefix}{name}"
        if isinstance(inner, dict):
            yield from keys_of(inner, f"{prefix}{name}.")


def test_merge_fields_are_documented() -> None:
    assert documented("merge") == set(fields_of(TableResult)) - {"cursor.sources[]"}


def test_plan_fields_are_documented() -> None:
    always_null = {"touched_files", "estimated_seconds"}
    assert documented("plan") == set(fields_of(PlanResult)) - always_null


def test_status_fields_are_documented(tmp_path: Path) -> None:
    progress = ReplayProgress(1, 2, 3)
    row = replace(
        TableRow("lab.world", dirty=1, last_run=RUN, error=ERROR),
        position=MirrorStatus(cursor=Cursor(sources=(SOURCE,)), live_rows=1, index_bytes=1),
        replay=Replay("r", 1.0, full=True, progress=progress),
        last_replay=ReplayEnd("r", 1.0, "failed", progress, ERROR),
    )
    (table,) = load_settings(write_config(tmp_path), {}).tables
    reported = set(keys_of(table_status(table, Rows({table.name: row}, {}), 2.0)))
    documented_elsewhere = {
        "lag",
        "cursor.version",
        "cursor.sources",
        "last_replay.error.kind",
        "last_replay.error.message",
    }
    assert documented("status") == reported - documented_elsewhere
