"""The configuration refuses properties that a merge would refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from icemirror.cli.main import run
from icemirror.config_file.load import load_settings
from icemirror.errors import BadConfig, Invalid
from icemirror.settings.unsupported import unsupported_settings
from icemirror.tables.mirror_properties import LEVELS, NUMBERS, invalid_properties
from spark_job.iceberg.write_properties import check_properties
from tests.unit.icemirror.settings.samples import TABLES, Load, Refuse
from trigger.heads.head_source import open_head_source

PARQUET = "write.parquet."
INVALID_PROPERTIES = [
    *((name, "big") for name in NUMBERS),
    ("write.target-file-size-bytes", "0"),
    ("icemirror.max-snapshots", "-3"),
    ("write.metadata.metrics.max-inferred-column-defaults", "many"),
    ("write.avro.compression-codec", "lzma"),
    (f"{PARQUET}compression-codec", "zip"),
    (f"{PARQUET}compression-level", "23"),
    (f"{PARQUET}compression-level", "best"),
    (f"{PARQUET}page-version", "v3"),
    (f"{PARQUET}bloom-filter-fpp.column.id", "2"),
    (f"{PARQUET}bloom-filter-ndv.column.id", "few"),
    ("write.data.path", "data"),
    ("write.metadata.path", "file:meta"),
    ("write.object-storage.enabled", "perhaps"),
    ("write.object-storage.partitioned-paths", "perhaps"),
]
VALID_PROPERTIES = [
    *((name, "7") for name in NUMBERS),
    *((name, "") for name in NUMBERS),
    ("write.metadata.metrics.max-inferred-column-defaults", "-1"),
    ("write.avro.compression-codec", "ZSTD"),
    ("write.avro.compression-codec", "snappy"),
    (f"{PARQUET}compression-codec", "Uncompressed"),
    (f"{PARQUET}compression-level", "-5"),
    (f"{PARQUET}bloom-filter-fpp.column.id", "0.05"),
    (f"{PARQUET}bloom-filter-enabled.column.id", "whatever Iceberg Java takes for false"),
    ("write.data.path", "s3://bucket/folder"),
    ("write.metadata.path", "/data/meta"),
    ("write.object-storage.enabled", "True"),
    ("format-version", "2"),
    ("comment", "of somebody's own"),
]


@pytest.mark.parametrize(("name", "text"), INVALID_PROPERTIES)
def test_invalid_property_is_refused_with_the_message_of_a_merge(
    refuse_table: Refuse, name: str, text: str
) -> None:
    (problem,) = refuse_table(f"table_properties: {{{name}: '{text}'}}")
    message = re.fullmatch(r'table_properties(?:\["[^"]+"\]|\.\S+): (is .*)', problem)
    assert message is not None, problem
    with pytest.raises(Invalid, match=re.escape(f"{name} {message[1]}")):
        check_properties({name: text})


@pytest.mark.parametrize(("name", "text"), VALID_PROPERTIES)
def test_valid_property_is_accepted(load_table: Load, name: str, text: str) -> None:
    (table,) = load_table(f'table_properties: {{{name}: "{text}"}}').tables
    assert table.table_properties == {name: text}


def test_compression_level_is_checked_against_its_codec() -> None:
    level = f"{PARQUET}compression-level"
    assert list(invalid_properties({level: "10", f"{PARQUET}compression-codec": "gzip"}))
    assert not list(invalid_properties({level: "10", f"{PARQUET}compression-codec": "brotli"}))
    assert not list(invalid_properties({level: "high", f"{PARQUET}compression-codec": "snappy"}))


def test_compression_levels_match_arrow() -> None:
    for codec, (least, most) in LEVELS.items():
        assert pa.Codec.minimum_compression_level(codec) == least
        assert pa.Codec.maximum_compression_level(codec) == most


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            "table_properties: {format-version: 3}",
            "table_properties.format-version: is '3', but format_version is 2: set format_version instead",
        ),
        (
            "table_properties: {icemirror.max-snapshot: 5}",
            'table_properties["icemirror.max-snapshot"]: is managed by icemirror; did you mean',
        ),
        (
            "table_properties: {icemirror.source: x}",
            'table_properties["icemirror.source"]: is managed by icemirror: remove it',
        ),
        (
            "partition_by: ['bucket[4](id)', 'bucket[8](id)']",
            "partition_by[1]: two partition fields are named id_bucket: remove one",
        ),
        (
            "partition_by: [ts_day, day(ts)]",
            "partition_by[1]: two partition fields are named ts_day: remove one",
        ),
        (
            "primary_keys: [id, op], operation_column: op",
            "primary_keys[1]: column op cannot be both a key and a CDC column",
        ),
        (
            "sequence_column: ts, partition_by: [day(ts)]",
            "partition_by[0]: the mirror lacks the CDC column ts: add it to keep_columns",
        ),
        ("operation_column: x, sequence_column: [a, x]", "sequence_column: 'x' is the operation_column"),
    ],
)
def test_contradictory_options_are_refused(refuse_table: Refuse, options: str, problem: str) -> None:
    (found,) = refuse_table(options)
    assert found.startswith(problem)


def test_kept_cdc_column_can_be_a_partition_column(load_table: Load) -> None:
    assert load_table("sequence_column: ts, keep_columns: [ts], partition_by: [day(ts)]").tables


def test_default_cdc_columns_are_checked_against_the_changelog_only(load_table: Load) -> None:
    """Supabase ETL renames its CDC columns if the source has columns with these names."""
    assert load_table("primary_keys: [sequence_number], partition_by: [cdc_operation]").tables


def test_discovered_tables_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "icemirror.yaml"
    path.write_text(
        "iceberg: {catalog: {type: glue}}\n"
        "discover: [{namespace: raw, match: '*_log', table_properties: {write.data.path: here}}]\n"
    )
    with pytest.raises(BadConfig, match=r"discover\[0\]\.table_properties.*is 'here', not an absolute path"):
        load_settings(path, {})


def test_every_command_exits_with_2_and_prints_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "icemirror.yaml"
    path.write_text(
        "iceberg: {catalog: {type: glue}}\n"
        "tables:\n"
        "  - changelog: raw.o\n"
        "    mirror: shop.o\n"
        "    table_properties:\n"
        "      write.target-file-size-bytes: 128MB\n"
    )
    for command in (["config", "check"], ["merge"], ["plan"]):
        assert run([*command, "-c", str(path)]) == 2
        printed = capsys.readouterr().err
        assert (
            f"{path}:6: tables[0].table_properties[\"write.target-file-size-bytes\"]: is '128MB'" in printed
        )


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "dynamodb"},
        {"type": "hive", "uri": "thrift://host:9083", "hive.kerberos-authentication": "true"},
        {"type": "rest", "uri": "https://host", "rest.sigv4-enabled": "true"},
    ],
)
def test_catalogs_that_the_trigger_does_not_support_are_listed(
    load: Load, properties: dict[str, str]
) -> None:
    with pytest.raises(BadConfig) as refused:
        open_head_source(properties)
    assert unsupported_settings(load(f"iceberg: {{catalog: {json.dumps(properties)}}}\n{TABLES}")) == [
        str(refused.value)
    ]
    unused = f"iceberg: {{catalog: {{type: glue}}, catalogs: {{other: {json.dumps(properties)}}}}}\n{TABLES}"
    assert unsupported_settings(load(unused)) == [], "no changelog is in this catalog"
