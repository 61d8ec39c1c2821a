"""Rows as JSON: every row carries the version of its shape, and shapes of older releases still load.

What a later release added without a new version is carried along as it is, so that two releases may share a state.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from icemirror.errors import Invalid
from icemirror.state.rows import Row, SlotRow, TableRow

VERSION = 1
R = TypeVar("R", TableRow, SlotRow)

_TABLE = TypeAdapter(TableRow)
_SLOT = TypeAdapter(SlotRow)
_NOT_STORED = {"revision", "extra"}
_OF_TABLES = frozenset(field.name for field in fields(TableRow)) - _NOT_STORED
_OF_SLOTS = frozenset(field.name for field in fields(SlotRow)) - _NOT_STORED
_OF_ANOTHER_RELEASE = (
    "enum",
    "literal_error",
    "extra_forbidden",
)  # as pydantic calls them: no damage looks like that


def dump_row(row: Row) -> str:
    """The row without its revision, which belongs to the store, and with what a later release has put there."""
    body = (
        _TABLE.dump_json(row, exclude=_NOT_STORED)
        if isinstance(row, TableRow)
        else _SLOT.dump_json(row, exclude=_NOT_STORED)
    )
    if not row.extra:
        return body.decode()
    return json.dumps({**json.loads(row.extra), **json.loads(body)}, separators=(",", ":"))


def load_table(body: str, revision: str) -> TableRow:
    """A table row, of this release or an older one."""
    return _load(_TABLE, _OF_TABLES, body, revision)


def load_slot(body: str, revision: str) -> SlotRow:
    """A slot row, of this release or an older one."""
    return _load(_SLOT, _OF_SLOTS, body, revision)


def _load(adapter: TypeAdapter[R], known: frozenset[str], body: str, revision: str) -> R:
    """Fields that a row lacks take their defaults: adding one needs no new version; changing one does."""
    try:
        found = json.loads(body)
        version = int(found["version"])
        if version > VERSION:
            raise _newer(found, f"version {version}, this release knows {VERSION}")
        extra = {name: value for name, value in found.items() if name not in known}
        kept = {"revision": revision, "extra": json.dumps(extra) if extra else ""}
        return adapter.validate_python({**found, **kept})
    except ValidationError as error:
        if strange := [one["loc"] for one in error.errors() if one["type"] in _OF_ANOTHER_RELEASE]:
            where = ".".join(map(str, strange[0]))
            raise _newer(found, f"an unknown value under `{where}`") from None
        raise _damaged(body, f"{error.error_count()} unfit values") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(body, type(error).__name__) from None


def _newer(found: dict[str, Any], what: str) -> Invalid:  # Any: as it was stored
    which = json.dumps(found.get("name") or found.get("id"))
    return Invalid(
        f"the row of {which} in the state has {what}: a newer icemirror wrote it. Upgrade this one, or move the "
        "state aside: without it the next sweep finds all that is to be merged"
    )


def _damaged(body: str, what: str) -> Invalid:
    return Invalid(
        f"a row of the state is damaged ({what}): {body[:200]!r}. Remove it, or move the state aside: "
        "without it the next sweep finds all that is to be merged"
    )
