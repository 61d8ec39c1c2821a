"""docs/reference/commands.md names the fields of JSON results: exactly those that there are."""

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
from icemirror.result import ErrorResult, PlanResult, Position, TableResult
from icemirror.tables.cursor import Cursor, CursorSource, Truncation
from tests.mirrors import write_config
from tests.unit.icemirror.protocol.samples import RUN
from trigger.status.table_status import table_status

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "commands.md"
ERROR = ErrorResult(kind=Kind.INVALID, message="m")
SOURCE = CursorSource(uuid="u", snapshot_id=1, sequence_number=1)


def documented(command: str) -> set[str]:
    """The fields of a command's table."""
    (section,) = re.findall(rf"^### {command} --json\n(.*?)^##", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    cells = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    found = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    assert len(found) == len(set(found))
    return set(found)


def fields_of(model: type[BaseModel], lead: str = "") -> Iterator[str]:
    """The fields of a model and of those in it; `[]` for items."""
    for name, field in model.model_fields.items():
        inner, many = model_in(field.annotation)
        place = f"{lead}{name}{'[]' if many else ''}"
        if inner is Truncation:
            yield place
        elif inner is not None:
            yield place
            yield from fields_of(inner, f"{place}.")
        else:
            yield place.removesuffix("[]")


def model_in(annotation: object) -> tuple[type[BaseModel] | None, bool]:
    """The model that a field holds, and whether it holds many."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    many = typing.get_origin(annotation) is tuple
    for part in typing.get_args(annotation):
        inner, more = model_in(part)
        if inner is not None:
            return inner, many or more
    return None, False


def keys_of(value: dict[str, Any], lead: str = "") -> Iterator[str]:
    """The keys of an object and of those in it."""
    for name, inner in value.items():
        yield f"{lead}{name}"
        if isinstance(inner, dict):
            yield from keys_of(inner, f"{lead}{name}.")


def test_the_fields_of_a_merge_are_documented() -> None:
    assert documented("merge") == set(fields_of(TableResult)) - {"cursor.sources[]"}


def test_the_fields_of_a_plan_are_documented() -> None:
    always_null = {"touched_files", "estimated_seconds"}
    assert documented("plan") == set(fields_of(PlanResult)) - always_null


def test_the_fields_of_a_status_are_documented(tmp_path: Path) -> None:
    progress = ReplayProgress(1, 2, 3)
    row = replace(
        TableRow("lab.world", dirty=1, last_run=RUN, error=ERROR),
        position=Position(cursor=Cursor(sources=(SOURCE,)), live_rows=1, index_bytes=1),
        replay=Replay("r", 1.0, full=True, progress=progress),
        last_replay=ReplayEnd("r", 1.0, "failed", progress, ERROR),
    )
    (table,) = load_settings(write_config(tmp_path), {}).tables
    told = set(keys_of(table_status(table, Rows({table.name: row}, {}), 2.0)))
    of_others = {
        "lag",
        "cursor.version",
        "cursor.sources",
        "last_replay.error.kind",
        "last_replay.error.message",
    }
    assert documented("status") == told - of_others
