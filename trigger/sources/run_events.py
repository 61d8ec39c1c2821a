"""Run events: state changes of EMR Serverless job runs and of `SparkApplication` objects."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.event_json import Document, EventModel, Text, parse_event
from trigger.sources.hints import Hint, RunHint

SPARK_APPLICATION = "SparkApplication"
_EMR_RUN_CHANGED = "EMR Serverless Job Run State Change"


class _EmrDetail(EventModel):
    run: Annotated[Text, Field(alias="jobRunId")]
    state: Text


class _EmrEvent(EventModel):
    detail: _EmrDetail


def read_emr_event(document: Document) -> tuple[Hint, ...]:
    """Return a hint for the job run."""
    if document.get("detail-type") != _EMR_RUN_CHANGED:
        return ()
    return (RunHint(parse_event(_EmrEvent, document, "EMR Serverless event").detail.run),)


class _ObjectMetadata(EventModel):
    name: Text


class _SparkApplication(EventModel):
    metadata: _ObjectMetadata


def read_spark_application(document: Document) -> tuple[Hint, ...]:
    """Return a hint for the run that is named like the object."""
    return (RunHint(parse_event(_SparkApplication, document, SPARK_APPLICATION).metadata.name),)
