from __future__ import annotations

import pytest
from pydantic import ValidationError

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from icemirror.settings.partitioning import PartitionField
from icemirror.tables.table_id import TableId
from tests.unit.icemirror.settings.samples import CATALOG, Load, Refuse


def test_both_forms_of_table_names_are_accepted(load: Load) -> None:
    settings = load(
        f"{CATALOG}tables:\n"
        "  - {namespace: lake.shop, changelog_table: a_changelog, mirror_table: a}\n"
        "  - {changelog: raw.b_changelog, mirror: lake.shop.b}\n"
    )
    assert [(table.changelog_id, table.mirror_id, table.name) for table in settings.tables] == [
        (TableId(("lake", "shop"), "a_changelog"), TableId(("lake", "shop"), "a"), "lake.shop.a"),
        (TableId(("raw",), "b_changelog"), TableId(("lake", "shop"), "b"), "lake.shop.b"),
    ]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("namespace: a, changelog_table: b", "mirror_table: missing"),
        ("changelog_table: b, mirror_table: c", "namespace: missing"),
        ("changelog: a.b", "mirror: missing"),
        ("namespace: a, changelog: a.b, mirror: a.c", "tables[0]: set either namespace, changelog_table"),
        ("group: x", "tables[0]: has no table names: set either namespace"),
        ("changelog: b, mirror: a.c", "changelog: 'b' is not a table name: expected namespace.table"),
        ("changelog: a.b, mirror: a..c", "mirror: 'a..c' is not a table name"),
        ("namespace: a., changelog_table: b, mirror_table: c", "namespace: 'a.' is not a namespace"),
        ("namespace: a, changelog_table: x.b, mirror_table: c", "changelog_table: must not contain dots"),
        ("namespace: '', changelog_table: b, mirror_table: c", "namespace: must not be empty"),
        (
            "changelog: a.b, mirror: a.b",
            "mirror: mirror and changelog are the same table, a.b: choose another mirror",
        ),
        (
            "namespace: a, changelog_table: b, mirror_table: b",
            "mirror_table: mirror and changelog are the same table",
        ),
    ],
)
def test_incomplete_or_mixed_names_are_refused(refuse_table: Refuse, names: str, problem: str) -> None:
    (found,) = refuse_table("", names=names)
    assert found.startswith(problem)


def test_defaults_are_those_of_the_contract(load_table: Load) -> None:
    (table,) = load_table("").tables
    assert table.primary_keys == ()
    assert (table.operation_column, table.operation_values, table.sequence_column) == (None, None, None)
    assert (table.profile, table.format_version, table.group, table.min_interval) == (
        "supabase-etl",
        2,
        "default",
        0,
    )
    assert (table.schema_policy, table.on_truncate, table.on_expired_cursor) == (
        "permissive",
        "rebuild",
        "stop",
    )
    assert (table.on_bad_row, table.delete_mode, table.name_case) == ("stop", "hard", "preserve")
    assert table.append_only is False


def test_profile_provides_defaults(load_table: Load) -> None:
    (table,) = load_table("").tables
    assert table.resolved_operation_column == "cdc_operation"
    assert table.resolved_sequence_columns == ("sequence_number",)
    assert table.resolved_operation_values.insert == ("INSERT",)
    (table,) = load_table("profile: kafka-connect").tables
    assert table.resolved_operation_column == "_cdc.op"
    assert table.resolved_sequence_columns == ("_cdc.ts", "_cdc.offset")
    (table,) = load_table("profile: dms, sequence_column: commit_ts").tables
    assert table.profile_defaults.null_sequence_is_lowest
    assert table.profile_defaults.null_operation_is_insert


def test_table_settings_override_the_profile(load_table: Load) -> None:
    (table,) = load_table(
        "operation_column: op, sequence_column: [lsn, seq], operation_values: {insert: [I], delete: [D]}"
    ).tables
    assert (table.operation_column, table.resolved_operation_column) == ("op", "op")
    assert (table.sequence_column, table.resolved_sequence_columns) == (("lsn", "seq"), ("lsn", "seq"))
    assert table.resolved_operation_values.update == ()


def test_single_sequence_column_becomes_a_list(load_table: Load) -> None:
    assert load_table("sequence_column: lsn").tables[0].sequence_column == ("lsn",)


def test_values_like_numbers_and_booleans_stay_text(load_table: Load) -> None:
    (table,) = load_table(
        "operation_values: {insert: [1], update: [yes], delete: [1.10]}, table_properties: {a: 1.10, b: true, c: on}"
    ).tables
    assert table.resolved_operation_values.model_dump() == {
        "insert": ("1",),
        "update": ("yes",),
        "delete": ("1.10",),
        "truncate": (),
        "ignore": (),
    }
    assert table.table_properties == {"a": "1.10", "b": "true", "c": "on"}


def test_partitions_are_parsed(load_table: Load) -> None:
    (table,) = load_table("partition_by: ['day(ts)', 'bucket[16](id)']").tables
    assert table.partition_by == (PartitionField("day", None, "ts"), PartitionField("bucket", 16, "id"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("append_only: true, primary_keys: [id]", "primary_keys: an append_only table has no key"),
        (
            "append_only: true, delete_mode: soft",
            "delete_mode: an append_only table has no deletes",
        ),
        (
            "append_only: true, metadata_columns: {source_sequence: s}",
            "metadata_columns.source_sequence: an append_only table has no sequence",
        ),
        (
            "append_only: true, operation_values: {insert: [I], ignore: [M]}",
            "operation_values.ignore: an append_only table skips no event",
        ),
        ("append_only: maybe", "append_only: expected true or false; found 'maybe'"),
        ("primary_keys: [id, id]", "primary_keys[1]: 'id' is listed twice"),
        ("sequence_column: []", "sequence_column: must not be empty"),
        ("sequence_column: [a, a]", "sequence_column[1]: 'a' is listed twice"),
        ("partition_by: [day(ts), day(ts)]", "partition_by[1]: 'day(ts)' is listed twice"),
        ("partition_by: day(ts)", "partition_by: expected a list"),
        ("format_version: 1", "format_version: expected 2 or 3; found '1'"),
        (
            "group: Default",
            "group: expected lower-case letters, digits and dashes, 31 at most; found 'Default'",
        ),
        (f"group: {'a' * 32}", "group: expected lower-case letters"),
        ("group: -a", "group: expected lower-case letters"),
        ("profile: generic", "operation_column: missing: the profile generic has no default"),
        ("profile: debezium", "sequence_column: missing: the profile debezium has no default"),
        ("profile: dms", "sequence_column: missing: the profile dms has no default"),
        (
            "profile: dms, sequence_column: ts, connector: mysql",
            "connector: the profile dms has no connectors",
        ),
        ("upsert_only: yes, operation_column: op", "upsert_only: excludes operation_column"),
        ("sequence_format: {other: number}", "sequence_format.other: is not a sequence column"),
        ("sequence_format: {sequence_number: hex}", "sequence_format.sequence_number: expected etl-hex"),
        ("primary_keys: [id], old_key_columns: {ix: a}", "old_key_columns.ix: is not a key column"),
        (
            "operation_values: {insert: [a], ignore: [a]}",
            "operation_values.ignore: 'a' is already listed under insert",
        ),
        (
            "operation_values: {insert: [I], update: [I]}",
            "operation_values.update: 'I' is already listed under insert",
        ),
        ("operation_values: {delete: [D]}", "operation_values: no value inserts or updates"),
        ("operation_values: {upsert: [D]}", "operation_values.upsert: unknown key; did you mean insert?"),
        (
            "columns: {include: [id], exclude: [a]}",
            "columns.exclude: use either include or exclude, not both",
        ),
        ("columns: {include: []}", "columns.include: is empty"),
        (
            "columns: {exclude: [id]}, primary_keys: [id]",
            "primary_keys[0]: the mirror needs 'id', but `columns`",
        ),
        ("columns: {include: [id]}, partition_by: [day(ts)]", "partition_by[0]: the mirror needs 'ts'"),
        (
            "metadata_columns: {synced_at: x, created_at: x}",
            "metadata_columns.created_at: 'x' is listed twice",
        ),
        ("min_interval: soon", "min_interval: 'soon' is not a duration"),
        ("table_properties: {a: {b: c}}", "table_properties.a: expected one plain value"),
        ("table_properties: {a: }", "table_properties.a: has no value"),
        ("changelog_catalog: lake", "changelog_catalog: no catalog 'lake' under iceberg.catalogs"),
    ],
)
def test_invalid_options_are_refused(refuse_table: Refuse, options: str, problem: str) -> None:
    assert refuse_table(options)[0].startswith(problem)


def test_append_only_table_needs_no_columns_from_its_profile(load_table: Load) -> None:
    assert load_table("append_only: yes, profile: generic").tables[0].append_only


def test_two_tables_with_one_mirror_are_refused_in_any_catalog(refuse: Refuse) -> None:
    found = refuse(
        "iceberg:\n  catalog: {type: glue}\n  catalogs: {lake: {type: glue}}\n"
        "tables:\n  - {changelog: raw.a, mirror: shop.o}\n"
        "  - {changelog: raw.b, mirror: shop.o, mirror_catalog: lake}\n"
    )
    assert found == ["icemirror.yaml:6: tables[1]: the mirror shop.o already has the changelog raw.a"]


def test_mirror_can_be_a_changelog_only_if_it_is_append_only(refuse: Refuse, load: Load) -> None:
    second = "  - {changelog: shop.a, mirror: top.a}\n"
    refused = f"{CATALOG}tables:\n  - {{changelog: raw.a, mirror: shop.a}}\n{second}"
    assert "is another table's changelog" in refuse(refused)[0]
    allowed = f"{CATALOG}tables:\n  - {{changelog: raw.a, mirror: shop.a, append_only: true}}\n{second}"
    assert len(load(allowed).tables) == 2


def test_configuration_without_tables_is_refused(refuse: Refuse) -> None:
    assert "tables: missing: list your tables under `tables`, or use `discover`" in refuse(CATALOG)[0]
    assert "tables: empty: list your tables under" in refuse(f"{CATALOG}tables: []\n")[0]


def test_tables_as_a_mapping_are_refused_with_the_form_of_a_list(refuse: Refuse) -> None:
    (problem,) = refuse(f"{CATALOG}tables:\n  changelog: raw.a\n  mirror: shop.a\n")
    assert problem.endswith('tables: expected a list: start each entry with "- "')


def test_tables_are_found_by_mirror_or_changelog(load_table: Load) -> None:
    settings = load_table("")
    assert settings.table("shop.o") is settings.table("raw.o") is settings.tables[0]


def test_error_of_an_unknown_table_suggests_a_similar_name(load: Load) -> None:
    settings = load(f"{CATALOG}tables: [{{changelog: raw.orders_changelog, mirror: shop.orders}}]\n")
    with pytest.raises(Invalid, match=r"table 'shop.order' is not configured; did you mean shop\.orders\?"):
        settings.table("shop.order")
    with pytest.raises(Invalid, match=r"configured: shop\.orders"):
        settings.table("zzz")


def test_changelog_with_several_mirrors_is_ambiguous(load: Load) -> None:
    settings = load(f"{CATALOG}tables: [{{changelog: r.c, mirror: s.a}}, {{changelog: r.c, mirror: s.b}}]\n")
    with pytest.raises(Invalid, match=r"several mirrors; give one of: s\.a, s\.b"):
        settings.table("r.c")


def test_settings_built_in_python_are_frozen() -> None:
    table = TableSettings(changelog="raw.o", mirror="shop.o", sequence_column=("a", "b"))
    with pytest.raises(ValidationError, match="frozen"):
        table.group = "other"
