"""Remembers what PyIceberg works out anew for every Avro file, and keeps Arrow in one thread: the tables are tiny."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partialmethod
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
from pyiceberg import manifest
from pyiceberg.avro import file as avro_file
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_parsed: dict[str, Schema] = {}
_kept: list[Any] = []  # an id names an object only while it lives


def _schema(header: Any) -> Schema:
    text = header.meta["avro.schema"]
    if text not in _parsed:
        _parsed[text] = AvroSchemaConversion().avro_to_iceberg(json.loads(text))
    return _parsed[text]


def _remembered(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same answer for the very same schemas, and the same types to read into."""
    answers: dict[tuple[object, ...], Any] = {}

    def ask(*arguments: Any, **named: Any) -> Any:
        every = (*arguments, *named.values())
        key = tuple(tuple(one.items()) if isinstance(one, dict) else id(one) for one in every)
        if key not in answers:
            _kept.extend(every)
            answers[key] = call(*arguments, **named)
        return answers[key]

    return ask


_resolve_reader = _remembered(avro_file.resolve_reader)
_construct_reader = _remembered(avro_file.construct_reader)
_construct_writer = _remembered(avro_file.construct_writer)
_resolve_writer = _remembered(avro_file.resolve_writer)
_convert = _remembered(lambda schema, name: AvroSchemaConversion().iceberg_to_avro(schema, name))
_with_partition = manifest.ManifestWriter._with_partition
_partitioned: dict[tuple[int, str], Schema] = {}


class _Conversion(AvroSchemaConversion):
    def iceberg_to_avro(self, schema: Schema, schema_name: str | None = None) -> Any:
        return _convert(schema, schema_name)


def _entry_schema(writer: Any, version: int) -> Schema:
    key = version, str(writer._spec)
    if key not in _partitioned:
        _partitioned[key] = _with_partition(writer, version)  # type: ignore[arg-type]
    return _partitioned[key]


def patches() -> list[Any]:
    """What to put in place while seeds run."""
    plain = {
        name: partialmethod(getattr(pq.ParquetFile, name), use_threads=False)
        for name in ("read", "read_row_group", "read_row_groups")
    }
    return [
        patch.object(avro_file.AvroFileHeader, "get_schema", _schema),
        patch.object(avro_file, "resolve_reader", _resolve_reader),
        patch.object(avro_file, "construct_reader", _construct_reader),
        patch.object(avro_file, "construct_writer", _construct_writer),
        patch.object(avro_file, "resolve_writer", _resolve_writer),
        patch.object(avro_file, "AvroSchemaConversion", _Conversion),
        patch.object(manifest.ManifestWriter, "_with_partition", _entry_schema),
        *(patch.object(pq.ParquetFile, name, method) for name, method in plain.items()),
    ]
