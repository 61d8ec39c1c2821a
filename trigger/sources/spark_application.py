"""The status of a `SparkApplication`: the object itself, or a line of a watch on such objects."""

from __future__ import annotations

from trigger.sources.body import Document
from trigger.sources.hints import Hint, RunHint
from trigger.sources.shape import Text, Told, read_as

KIND = "SparkApplication"


class _Metadata(Told):
    name: Text


class _Application(Told):
    metadata: _Metadata


def read_spark_application(document: Document) -> tuple[Hint, ...]:
    """A hint about the run of that name; the launcher is asked about its state."""
    return (RunHint(read_as(_Application, document, KIND).metadata.name),)
