"""Rows and results as JSON.

Every row carries the version of its format, and formats of older releases still load. Fields that a later release added
without a new version are kept as they are, so that two releases may share a state.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from icemirror.errors import Invalid
from icemirror.protocol.rows import Row, SlotRow, TableRow
from icemirror.result import TableResult
from icemirror.stores.store import TurnResult

VERSION = 1
R = TypeVar("R", TableRow, SlotRow)

_TABLE = TypeAdapter(TableRow)
_SLOT = TypeAdapter(SlotRow)
_NOT_STORED = {"revision", "extra"}
_TABLE_FIELDS = frozenset(field.name for field in fields(TableRow)) - _NOT_STORED
_SLOT_FIELDS = frozenset(field.name for field in fields(SlotRow)) - _NOT_STORED
# Pydantic's names of errors that a value of a newer release causes, and damage does not.
_NEWER_VALUE_ERRORS = ("enum", "literal_error", "extra_forbidden")


def dump_row(row: Row) -> str:
    """Return the row without its revision, which belongs to the store, and with the fields of a later release."""
    body = (
        _TABLE.dump_json(row, exclude=_NOT_STORED)
        if isinstance(row, TableRow)
        else _SLOT.dump_json(row, exclude=_NOT_STORED)
    )
    if not row.extra:
        return body.decode()
    return json.dumps({**json.loads(row.extra), **json.loads(body)}, separators=(",", ":"))


def load_table(body: str, revision: str) -> TableRow:
    """Return a table row that this release or an older one wrote."""
    return _load(_TABLE, _TABLE_FIELDS, body, revision)


def load_slot(body: str, revision: str) -> SlotRow:
    """Return a slot row that this release or an older one wrote."""
    return _load(_SLOT, _SLOT_FIELDS, body, revision)


def _load(adapter: TypeAdapter[R], field_names: frozenset[str], body: str, revision: str) -> R:
    """Return the row. Missing fields take their defaults: adding a field needs no new version, changing one does."""
    try:
        document = json.loads(body)
        version = int(document["version"])
        if version > VERSION:
            raise _newer_row(document, f"version {version}, this release knows {VERSION}")
        extra = {name: value for name, value in document.items() if name not in field_names}
        store_fields = {"revision": revision, "extra": json.dumps(extra) if extra else ""}
        return adapter.validate_python({**document, **store_fields})
    except ValidationError as error:
        locations = [problem["loc"] for problem in error.errors() if problem["type"] in _NEWER_VALUE_ERRORS]
        if locations:
            field_path = ".".join(map(str, locations[0]))
            raise _newer_row(document, f"an unknown value under `{field_path}`") from None
        raise _damaged_row(body, f"{error.error_count()} invalid values") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged_row(body, type(error).__name__) from None


def _newer_row(document: dict[str, Any], reason: str) -> Invalid:  # Any: as it was stored
    key = json.dumps(document.get("name") or document.get("id"))
    return Invalid(
        f"a newer icemirror wrote the state row of {key}: it has {reason}. Upgrade this icemirror, or delete or "
        "move the state; the next sweep finds all pending work"
    )


def _damaged_row(body: str, reason: str) -> Invalid:
    return Invalid(
        f"a state row is damaged ({reason}). Delete the row, or delete or move the state; the next sweep finds all "
        f"pending work. The row: {body[:200]!r}"
    )


def dump_result(result: TableResult, max_bytes: int | None = None) -> str:
    """Return the result as JSON, without its first slices if it would be longer than `max_bytes`."""
    body = result.model_dump_json()
    while max_bytes is not None and len(body.encode()) > max_bytes and result.slices:
        newest_count = len(result.slices) // 2
        newest_slices = result.slices[len(result.slices) - newest_count :]
        result = result.model_copy(update={"slices": newest_slices})
        body = result.model_dump_json()
    return body


def load_result(run_id: str, recorded_at: float, body: str) -> TurnResult | None:
    """Return a recorded result; None if this release cannot read it. Results are history for status and metrics."""
    try:
        return TurnResult(run_id, recorded_at, TableResult.model_validate_json(body))
    except ValidationError:
        return None
