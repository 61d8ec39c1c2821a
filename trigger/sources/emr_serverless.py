"""EMR Serverless Job Run State Change, through EventBridge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, RunHint
from trigger.sources.shape import Text, Told, read_as

RUN_CHANGED = "EMR Serverless Job Run State Change"


class _Detail(Told):
    run: Annotated[Text, Field(alias="jobRunId")]
    state: Text


class _Event(Told):
    detail: _Detail


def read_emr_event(document: Document) -> tuple[Hint, ...]:
    """A hint about the run; the launcher is asked about its state."""
    if document.get("detail-type") != RUN_CHANGED:
        return ()
    return (RunHint(read_as(_Event, document, "EMR Serverless event").detail.run),)
