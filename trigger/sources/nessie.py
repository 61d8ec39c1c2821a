"""Nessie's events, as its reference implementation writes them to Kafka: JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, NameHint
from trigger.sources.shape import Levels, Text, Told, read_as

_STORED = ("CONTENT_STORED", "TABLE_CREATED", "TABLE_ALTERED")
_TYPES = frozenset(
    (
        *_STORED, "CONTENT_REMOVED", "COMMIT", "MERGE", "TRANSPLANT",
        "REFERENCE_CREATED", "REFERENCE_UPDATED", "REFERENCE_DELETED",
        *(f"{what}_{how}" for what in ("TABLE", "VIEW", "NAMESPACE", "UDF", "GENERIC_CONTENT")
          for how in ("CREATED", "ALTERED", "DROPPED")),
    )
)  # fmt: skip
_TABLE = "ICEBERG_TABLE"


class _Key(Told):
    elements: Levels


class _Content(Told):
    type: Text


class _Stored(Told):
    key: Annotated[_Key | Levels, Field(alias="contentKey")]
    content: _Content | None = None


def is_nessie(document: Document) -> bool:
    """One of the kinds of event that Nessie has."""
    kind = document.get("type")
    return isinstance(kind, str) and kind in _TYPES


def read_nessie_event(document: Document) -> tuple[Hint, ...]:
    """A hint for a table that a commit stored; of a commit as a whole the events of its contents tell more."""
    if document["type"] not in _STORED:
        return ()
    told = read_as(_Stored, document, "Nessie event")
    if told.content is not None and told.content.type != _TABLE:
        return ()
    return (NameHint(tuple(told.key.elements if isinstance(told.key, _Key) else told.key)),)
