"""What a mirror does not support: a specific error, and nothing is written."""

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


def _leave_alone(_: Lab) -> None:
    """The changelog is as it is."""


@dataclass(frozen=True)
class Refusal:
    """A changelog with its key and a column `v`, its settings, and further changes to it.

    `empty`: the mirror exists, without a row.
    """

    kind: IcebergType
    options: str = "format_version: 3"
    prepare: Callable[[Lab], None] = _leave_alone
    changelog_version: int = 3
    empty: bool = False


def refuse(case: Refusal, folder: Path) -> str:
    """The message, after a check that nothing was written."""
    folder.mkdir(parents=True)
    schema = changelog_schema(("id", LongType()), ("v", case.kind))
    lab = Lab.make(folder, schema, options=case.options, changelog_version=case.changelog_version)
    case.prepare(lab)
    result = lab.try_merge()
    assert result.error is not None, case
    assert result.error.kind is Kind.INVALID, result.error
    left = lab.files_on_disk()
    assert all(path.endswith(".metadata.json") for path in left) if case.empty else not left
    words = _SNAPSHOT.sub("…", _FILE.sub("….parquet", result.error.message))
    return words.replace("lab.world", "shop.orders").replace("|", "\\|")


def _make_variant(lab: Lab) -> None:
    """Created like Iceberg Java does: PyIceberg lacks the type."""
    path = local_path(lab.changelog.metadata_location)
    metadata: dict[str, Any] = json.loads(path.read_text())
    (column,) = (one for one in metadata["schemas"][0]["fields"] if one["name"] == "v")
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
