"""Commits on S3 Tables: calls that CloudTrail recorded, through EventBridge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, NameHint
from trigger.sources.shape import Text, Told, dotted, read_as

_MAINTENANCE = "maintenance.s3tables.amazonaws.com"
_OF_INTEREST = ("CreateTable", "UpdateTableMetadataLocation", "UpdateTable")


class _Parameters(Told):
    namespace: Text
    name: Text


class _Identity(Told):
    invoked_by: Annotated[str | None, Field(alias="invokedBy", default=None, max_length=1024)]


class _Detail(Told):
    event_name: Annotated[Text, Field(alias="eventName")]
    user_agent: Annotated[str | None, Field(alias="userAgent", default=None, max_length=4096)]
    identity: Annotated[_Identity, Field(alias="userIdentity", default_factory=_Identity)]
    error: Annotated[str | None, Field(alias="errorCode", default=None, max_length=1024)]
    parameters: Annotated[_Parameters | None, Field(alias="requestParameters", default=None)]


class _Event(Told):
    detail: _Detail


def read_s3_tables_event(document: Document) -> tuple[Hint, ...]:
    """A hint for a table whose metadata a writer moved: not for S3's own maintenance, which changes no row."""
    detail = read_as(_Event, document, "S3 Tables event").detail
    by_maintenance = _MAINTENANCE in (detail.user_agent, detail.identity.invoked_by)
    if by_maintenance or detail.error or detail.event_name not in _OF_INTEREST or detail.parameters is None:
        return ()
    return (NameHint((*dotted(detail.parameters.namespace), detail.parameters.name)),)
