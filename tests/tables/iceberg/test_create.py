from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from icemirror.config_file.load import load_settings
from icemirror.errors import Invalid, Transient
from icemirror.settings import Settings, TableSettings
from icemirror.settings.partitioning import PartitionField as PartitionBy
from spark_job.columns.field_map import load_field_map, mirror_schema
from spark_job.iceberg.create import build_partition_spec, create_mirror
from tests.lab.mirrored_world import write_config
from tests.lab.samples import UnsteadyCatalog

CHANGELOG = Schema(
    NestedField(11, "id", LongType(), required=False),
    NestedField(12, "name", StringType(), required=False),
    NestedField(13, "cdc_operation", StringType(), required=True),
)
COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "ts", TimestampType()),
    NestedField(5, "tstz", TimestamptzType()),
    NestedField(6, "amount", DecimalType(9, 2)),
    NestedField(7, "small", IntegerType()),
    NestedField(8, "ratio", DoubleType()),
    NestedField(9, "place", StructType(NestedField(10, "floor", IntegerType()))),
)


def spec_of(*expressions: str) -> list[tuple[str, str, int, int]]:
    """Return (name, transform, source id, field id) of each partition field."""
    spec = build_partition_spec(
        "shop.orders", [PartitionBy.parse(expression) for expression in expressions], COLUMNS
    )
    return [(field.name, str(field.transform), field.source_id, field.field_id) for field in spec.fields]


@pytest.mark.parametrize(
    ("expression", "name", "transform", "source"),
    [
        ("name", "name", "identity", 2),
        ("year(day)", "day_year", "year", 3),
        ("month(ts)", "ts_month", "month", 4),
        ("day(tstz)", "tstz_day", "day", 5),
        ("hour(ts)", "ts_hour", "hour", 4),
        ("bucket[16](id)", "id_bucket", "bucket[16]", 1),
        ("truncate[4](name)", "name_truncate", "truncate[4]", 2),
        ("truncate[100](amount)", "amount_truncate", "truncate[100]", 6),
        ("bucket[3](amount)", "amount_bucket", "bucket[3]", 6),
        ("small", "small", "identity", 7),
    ],
)
def test_expression_becomes_a_partition_field(
    expression: str, name: str, transform: str, source: int
) -> None:
    assert spec_of(expression) == [(name, transform, source, 1000)]


def test_several_expressions_keep_their_order() -> None:
    assert [field[0] for field in spec_of("day(ts)", "bucket[4](id)", "name")] == [
        "ts_day",
        "id_bucket",
        "name",
    ]
    assert [field[3] for field in spec_of("day(ts)", "name")] == [1000, 1001]


def test_error_suggests_the_nearest_column() -> None:
    with pytest.raises(Invalid, match=r"partition_by names column idd, .*; did you mean id\?"):
        spec_of("idd")


def test_mirror_without_expressions_is_not_partitioned() -> None:
    assert spec_of() == []


@pytest.mark.parametrize("expression", ["nothing", "day(nothing)", "place.floor"])
def test_error_names_a_column_that_the_mirror_lacks(expression: str) -> None:
    with pytest.raises(Invalid, match=r"shop\.orders: partition_by names column"):
        spec_of(expression)


@pytest.mark.parametrize(
    "expression", ["day(name)", "hour(day)", "year(id)", "truncate[3](ratio)", "bucket[4](ratio)", "place"]
)
def test_transform_that_the_type_does_not_support_is_refused(expression: str) -> None:
    with pytest.raises(Invalid, match="is not defined for type"):
        spec_of(expression)


@pytest.mark.parametrize(
    ("expressions", "columns"),
    [
        (("day(ts)",), ("ts_day",)),
        (("bucket[4](id)", "bucket[8](id)"), ()),
        (("truncate[2](name)", "truncate[3](name)"), ()),
    ],
)
def test_partitions_that_iceberg_refuses_are_a_specific_error(
    catalog: UnsteadyCatalog, tmp_path: Path, expressions: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    """A partition with the name of a column, or two partitions with one name."""
    fields = [
        *COLUMNS.fields,
        *(NestedField(100 + index, name, LongType()) for index, name in enumerate(columns)),
    ]
    changelog = catalog.create_table("ns.raw", Schema(*fields))
    options = f"partition_by: {json.dumps(expressions)}"
    with pytest.raises(Invalid, match="partition"):
        make(catalog, table_settings(tmp_path, options), changelog, key_ids=(1,))


def table_settings(folder: Path, options: str = "") -> TableSettings:
    settings: Settings = load_settings(write_config(folder, options), {})
    return settings.tables[0]


def make(
    catalog: UnsteadyCatalog, settings: TableSettings, changelog: Table, key_ids: tuple[int, ...]
) -> Table:
    schema = changelog.schema()
    cdc = ("cdc_operation", "sequence_number")
    row_ids = tuple(field.field_id for field in schema.fields if field.name not in cdc)
    fresh, ids = mirror_schema(schema, row_ids, key_ids)
    return create_mirror(catalog, settings, changelog, fresh, ids)


@pytest.fixture
def changelog(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.raw", CHANGELOG)


def test_new_mirror_records_its_changelog(catalog: UnsteadyCatalog, tmp_path: Path, changelog: Table) -> None:
    mirror = make(catalog, table_settings(tmp_path), changelog, key_ids=(1,))
    properties = mirror.metadata.properties
    assert properties["icemirror.source"] == f"lab.world_changelog {changelog.metadata.table_uuid}"
    assert load_field_map(properties["icemirror.field-map"]) == {1: 1, 2: 2}
    assert mirror.metadata.format_version == 2
    assert mirror.current_snapshot() is None


def test_key_of_a_new_mirror_is_required_and_its_identifier(
    catalog: UnsteadyCatalog, tmp_path: Path, changelog: Table
) -> None:
    schema = make(catalog, table_settings(tmp_path), changelog, key_ids=(1,)).schema()
    assert [(field.name, field.required) for field in schema.fields] == [("id", True), ("name", False)]
    assert schema.identifier_field_ids == [1]


def test_missing_namespace_of_a_mirror_is_created(
    catalog: UnsteadyCatalog, tmp_path: Path, changelog: Table
) -> None:
    assert ("lab",) not in catalog.list_namespaces()
    make(catalog, table_settings(tmp_path), changelog, key_ids=(1,))
    assert ("lab",) in catalog.list_namespaces()


def test_configured_table_properties_and_partitions_are_used(
    catalog: UnsteadyCatalog, tmp_path: Path, changelog: Table
) -> None:
    options = 'table_properties: {write.parquet.compression-codec: zstd}\npartition_by: ["bucket[4](id)"]'
    mirror = make(catalog, table_settings(tmp_path, options), changelog, key_ids=(1,))
    assert mirror.metadata.properties["write.parquet.compression-codec"] == "zstd"
    assert [str(field.transform) for field in mirror.spec().fields] == ["bucket[4]"]


def test_mirror_of_version_3_starts_with_row_id_zero(
    catalog: UnsteadyCatalog, tmp_path: Path, changelog: Table
) -> None:
    settings = table_settings(tmp_path, "format_version: 3")
    mirror = make(catalog, settings, changelog, key_ids=(1,))
    metadata = json.loads(Path(mirror.metadata_location.removeprefix("file://")).read_text())
    assert (metadata["format-version"], metadata["next-row-id"]) == (3, 0)
    assert "format-version" not in metadata["properties"]
    assert make(catalog, settings, changelog, key_ids=(1,)).metadata.table_uuid == mirror.metadata.table_uuid


def test_icemirror_properties_cannot_be_overridden(
    catalog: UnsteadyCatalog, tmp_path: Path, changelog: Table
) -> None:
    settings = table_settings(tmp_path).model_copy(
        update={"table_properties": {"icemirror.source": "nonsense"}}
    )
    mirror = make(catalog, settings, changelog, key_ids=(1,))
    assert mirror.metadata.properties["icemirror.source"] != "nonsense"


def test_mirror_that_another_writer_created_concurrently_is_loaded(
    catalog: UnsteadyCatalog, tmp_path: Path, changelog: Table
) -> None:
    settings = table_settings(tmp_path)
    first = make(catalog, settings, changelog, key_ids=(1,))
    assert make(catalog, settings, changelog, key_ids=(1,)).metadata.table_uuid == first.metadata.table_uuid


class NumberingCatalog(UnsteadyCatalog):
    """Assigns the field ids of a new table in another order, as a REST catalog may."""

    def create_table(self, identifier: str | Identifier, schema: Schema, *rest: Any, **named: Any) -> Table:
        created = super().create_table(identifier, schema, *rest, **named)
        path = Path(created.metadata_location.removeprefix("file://"))
        metadata = json.loads(path.read_text())
        fields = metadata["schemas"][0]["fields"]
        fields[0]["id"], fields[1]["id"] = fields[1]["id"], fields[0]["id"]
        metadata["schemas"][0]["identifier-field-ids"] = [fields[0]["id"]]
        path.write_text(json.dumps(metadata))
        return self.load_table(identifier)


def test_field_map_has_the_ids_that_the_catalog_assigned(
    tmp_path: Path, catalog: UnsteadyCatalog, changelog: Table
) -> None:
    numbering = NumberingCatalog("unsteady", **catalog.properties)
    mirror = make(numbering, table_settings(tmp_path), changelog, key_ids=(1,))
    assert [(field.field_id, field.name) for field in mirror.schema().fields] == [(2, "id"), (1, "name")]
    assert load_field_map(mirror.metadata.properties["icemirror.field-map"]) == {1: 2, 2: 1}
    again = make(numbering, table_settings(tmp_path), changelog, key_ids=(1,))
    assert again.metadata_location == mirror.metadata_location


def test_mirror_that_exists_but_cannot_be_loaded_is_transient(
    tmp_path: Path, catalog: UnsteadyCatalog, changelog: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Table:
        raise TableAlreadyExistsError("409")

    monkeypatch.setattr(catalog, "create_table", refuse)
    with pytest.raises(Transient, match="because it exists, but does not find it"):
        make(catalog, table_settings(tmp_path), changelog, key_ids=(1,))
