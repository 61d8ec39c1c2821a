"""Rows as JSON: every row carries the version of its shape, and shapes of older releases still load."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from icemirror.errors import Invalid
from icemirror.state.rows import Row, SlotRow, TableRow

VERSION = 1
R = TypeVar("R", TableRow, SlotRow)

_TABLE = TypeAdapter(TableRow)
_SLOT = TypeAdapter(SlotRow)


def dump_row(row: Row) -> str:
    """The row without its revision, which belongs to the store."""
    without = {"revision"}
    body = (
        _TABLE.dump_json(row, exclude=without)
        if isinstance(row, TableRow)
        else _SLOT.dump_json(row, exclude=without)
    )
    return body.decode()


def load_table(body: str, revision: str) -> TableRow:
    """A table row, of this release or an older one."""
    return _load(_TABLE, body, revision)


def load_slot(body: str, revision: str) -> SlotRow:
    """A slot row, of this release or an older one."""
    return _load(_SLOT, body, revision)


def _load(adapter: TypeAdapter[R], body: str, revision: str) -> R:
    """Fields that a row lacks take their defaults: adding one needs no new version; changing one does."""
    try:
        fields = json.loads(body)
        version = int(fields["version"])
        if version <= VERSION:
            return adapter.validate_python({**fields, "revision": revision})
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        what = (
            f"{error.error_count()} unfit values"
            if isinstance(error, ValidationError)
            else type(error).__name__
        )
        raise Invalid(
            f"a row of the state is damaged ({what}): {body[:200]!r}. Remove it, or move the state aside: "
            "without it the next sweep finds all that is to be merged"
        ) from None
    raise Invalid(
        f"a row of the state has version {version}, this release knows {VERSION}: a newer icemirror wrote it"
        ". Upgrade this one, or move the state aside"
    )
