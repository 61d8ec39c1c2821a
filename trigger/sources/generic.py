"""The plain form, for whoever has no other: `{"table": "raw.orders_changelog"}` or `{"location": "s3://…"}`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, LocationHint, NameHint
from trigger.sources.place import parse_place, safe_place
from trigger.sources.refused import Reason, Refused
from trigger.sources.shape import MOST_RECORDS, Text, Told, dotted, read_as

KEYS = frozenset({"table", "tables", "location"})


class _Notice(Told):
    table: Text | None = None
    tables: Annotated[list[Text], Field(max_length=MOST_RECORDS, default_factory=list)]
    location: Annotated[str | None, Field(min_length=1, max_length=2048)] = None


def read_notice(document: Document) -> tuple[Hint, ...]:
    """A hint for every table named, and for the metadata file that was written."""
    told = read_as(_Notice, document, "notice")
    names = [*([told.table] if told.table is not None else []), *told.tables]
    hints: list[Hint] = [NameHint(dotted(name), or_mirror=True) for name in names]
    if told.location is not None:
        found = parse_place(told.location)
        if found is None:
            raise Refused(
                Reason.MALFORMED, "the location is no address of an object, such as s3://bucket/key"
            )
        place = safe_place(found.store, found.bucket, found.key)
        hints += [LocationHint(place)] if place.is_metadata else []
    return tuple(hints)
