"""Types that a mirror does not support: a specific error, and nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from icemirror.errors import Kind
from tests.lab.lab import Lab, changelog_schema, local_path, rows_table, sequence_text

_FILE = re.compile(r"\S+\.parquet")
_SNAPSHOT = re.compile(r"\d{12,}")


def _no_change(_: Lab) -> None:
    """Keep the changelog unchanged."""


@dataclass(frozen=True)
class Refusal:
    """A changelog with its key and a column `v`, its settings, and further changes to it.

    `empty`: the mirror exists, without a row.
    """

    kind: IcebergType
    options: str = "format_version: 3"
    prepare: Callable[[Lab], None] = _no_change
    changelog_version: int = 3
    empty: bool = False


def refusal_message(case: Refusal, folder: Path) -> str:
    """Return the error message of a merge that writes nothing."""
    folder.mkdir(parents=True)
    schema = changelog_schema(("id", LongType()), ("v", case.kind))
    lab = Lab.make(folder, schema, options=case.options, changelog_version=case.changelog_version)
    case.prepare(lab)
    result = lab.try_merge()
    assert result.error is not None, case
    assert result.error.kind is Kind.INVALID, result.error
    files = lab.files_on_disk()
    assert all(path.endswith(".metadata.json") for path in files) if case.empty else not files
    message = _SNAPSHOT.sub("…", _FILE.sub("….parquet", result.error.message))
    return message.replace("lab.world", "shop.orders").replace("|", "\\|")


def _make_variant(lab: Lab) -> None:
    """Create the type as Iceberg Java does, because PyIceberg lacks it."""
    path = local_path(lab.changelog.metadata_location)
    metadata: dict[str, Any] = json.loads(path.read_text())
    (column,) = (field for field in metadata["schemas"][0]["fields"] if field["name"] == "v")
    column["type"] = "variant"
    path.write_text(json.dumps(metadata))


def _add_null_key(lab: Lab) -> None:
    cdc = {"cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab.commit(rows_table(lab.changelog.schema(), [{"id": 1, "v": None, **cdc}]))


REFUSALS: Mapping[str, Refusal] = {
    "`variant`": Refusal(StringType(), prepare=_make_variant),
    "`geometry`": Refusal(GeometryType()),
    "`geography`": Refusal(GeographyType()),
    "`unknown`": Refusal(UnknownType()),
    "`timestamp_ns` in format version 2": Refusal(TimestampNanoType(), "format_version: 2"),
    "a list of `timestamptz_ns` in format version 2": Refusal(
        ListType(100, TimestamptzNanoType(), element_required=False), "format_version: 2"
    ),
    "a struct without fields": Refusal(StructType()),
    "`float` as a key": Refusal(FloatType(), "primary_keys: [id, v]"),
    "`double` as a key": Refusal(DoubleType(), "primary_keys: [v]"),
    "a struct, list or map as a key": Refusal(
        MapType(100, StringType(), 101, LongType(), value_required=False), "primary_keys: [v]"
    ),
    "NULL in a key": Refusal(LongType(), "primary_keys: [v]", _add_null_key, changelog_version=2, empty=True),
}
