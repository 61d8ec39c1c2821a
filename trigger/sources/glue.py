"""Glue Data Catalog Table State Change, through EventBridge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, NameHint
from trigger.sources.shape import Text, Told, dotted, read_as

TABLE_CHANGED = "Glue Data Catalog Table State Change"
_OF_INTEREST = ("CreateTable", "UpdateTable")


class _Detail(Told):
    database: Annotated[Text, Field(alias="databaseName")]
    table: Annotated[Text, Field(alias="tableName")]
    change: Annotated[Text, Field(alias="typeOfChange")]


class _Event(Told):
    detail: _Detail


def read_glue_event(document: Document) -> tuple[Hint, ...]:
    """A hint for a table that was made or changed; other events of Glue tell nothing of a commit."""
    if document.get("detail-type") != TABLE_CHANGED:
        return ()
    detail = read_as(_Event, document, "Glue event").detail
    return (NameHint((*dotted(detail.database), detail.table)),) if detail.change in _OF_INTEREST else ()
