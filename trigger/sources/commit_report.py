"""Iceberg's `CommitReport`, which clients post to a REST catalog, or to us."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, NameHint
from trigger.sources.shape import Text, Told, dotted, read_as

COMMIT = "commit-report"


class _Report(Told):
    table: Annotated[Text, Field(alias="table-name")]


def read_report(document: Document) -> tuple[Hint, ...]:
    """A hint for the table that was committed to. Java clients put their name for the catalog before its own.

    A report on a scan tells nothing.
    """
    if document["report-type"] != COMMIT:
        return ()
    told = read_as(_Report, document, "commit report")
    return (NameHint(dotted(told.table), qualified=True),)
