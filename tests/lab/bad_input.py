"""Damaged changelogs, mirrors and settings, and the errors that they must cause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyiceberg.types import LongType

from icemirror.errors import Kind
from tests.lab.lab import (
    ID_AND_NAME,
    Lab,
    events,
    local_path,
)

SECOND_TABLE = """  - namespace: lab
    changelog_table: good_changelog
    mirror_table: good
"""


Damage = Callable[[Lab], Lab | None]


def changelog_files(lab: Lab) -> list[Path]:
    """The changelog's data files, those of the head last."""
    files = [task.file.file_path for task in lab.changelog.refresh().scan().plan_files()]
    return sorted((local_path(path) for path in files), key=lambda path: path.stat().st_mtime_ns)


def bad_value(column: str, value: str | None) -> Damage:
    def damage(lab: Lab) -> None:
        table = events("U1@2 U2@2")
        index = table.schema.get_field_index(column)
        field = table.schema.field(index).with_nullable(True)
        lab.commit(table.set_column(index, field, pa.array([table[column][0].as_py(), value], field.type)))

    return damage


def with_options(options: str) -> Damage:
    def damage(lab: Lab) -> Lab:
        lab.commit_events("U1@2")
        return lab.reconfigure(options, SECOND_TABLE)

    return damage


def drop_changelog(lab: Lab) -> None:
    lab.catalog.drop_table("lab.world_changelog")


def rename_changelog(lab: Lab) -> None:
    lab.catalog.rename_table("lab.world_changelog", "lab.world_changelogs")


def recreate_changelog(lab: Lab) -> Lab:
    lab.catalog.drop_table("lab.world_changelog")
    lab.changelog = lab.catalog.create_table("lab.world_changelog", ID_AND_NAME)
    lab.commit_events("I1@9")
    return lab.reconfigure("on_truncate: stop", SECOND_TABLE)


def truncate_file(lab: Lab) -> None:
    lab.commit_events("U1@2")
    path = changelog_files(lab)[-1]
    path.write_bytes(path.read_bytes()[:-20])


def garble_file(lab: Lab) -> None:
    lab.commit_events("U1@2")
    changelog_files(lab)[-1].write_bytes(b"this is no Parquet file at all")


def remove_file(lab: Lab) -> None:
    lab.commit_events("U1@2")
    changelog_files(lab)[-1].unlink()


def remove_key_column(lab: Lab) -> None:
    lab.commit(events("U1@2").drop_columns(["id"]))


def delete_from_changelog(lab: Lab) -> None:
    lab.changelog.refresh().delete("id = 1")


def roll_changelog_back(lab: Lab) -> None:
    first = lab.changelog.refresh().metadata.current_snapshot_id
    lab.commit_events("U1@2")
    lab.merge()
    assert first is not None
    lab.changelog.refresh().manage_snapshots().rollback_to_snapshot(first).commit()


def expire_cursor(lab: Lab) -> None:
    """Expire the merged snapshot and an unmerged one; a later one stays."""
    merged = lab.changelog.refresh().metadata.current_snapshot_id
    missed = lab.commit_events("U1@2")
    lab.commit_events("U1@3")
    assert merged is not None
    lab.changelog.refresh().maintenance.expire_snapshots().by_ids([merged, missed]).commit()


def add_column_with_strict_policy(lab: Lab) -> Lab:
    with lab.changelog.update_schema() as update:
        update.add_column("more", LongType())
    lab.commit_events("U1@2")
    return lab.reconfigure("schema_policy: strict", SECOND_TABLE)


def change_type(lab: Lab) -> None:
    with lab.changelog.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("name", LongType())
    lab.commit_events("U1@2")


def rename_mirror_column(lab: Lab) -> None:
    with lab.mirror.update_schema() as update:
        update.rename_column("name", "title")
    lab.commit_events("U1@2")


def add_mirror_column(lab: Lab) -> None:
    with lab.mirror.update_schema() as update:
        update.add_column("note", LongType())
    lab.commit_events("U1@2")


def drop_mirror_column(lab: Lab) -> None:
    with lab.mirror.update_schema() as update:
        update.delete_column("name")
    lab.commit_events("U1@2")


def duplicate_a_key_in_the_mirror(lab: Lab) -> None:
    lab.commit_events("U1@2")
    mirror = lab.mirror
    mirror.append(pa.table({"id": [1], "name": ["double"]}).cast(mirror.schema().as_arrow()))


def replace_mirror_by_another_table(lab: Lab) -> None:
    lab.commit_events("U1@2")
    lab.catalog.drop_table("lab.world")
    lab.catalog.create_table("lab.world", ID_AND_NAME)


def remove_data_file(lab: Lab) -> None:
    """The row that the index references cannot be checked."""
    lab.commit_events("U1@2")
    (task,) = lab.mirror.scan().plan_files()
    local_path(task.file.file_path).unlink()


BAD: dict[str, tuple[Damage, Kind, str]] = {
    "missing changelog": (drop_changelog, Kind.INVALID, "there is no changelog.*Check changelog_table"),
    "misspelt changelog": (
        rename_changelog,
        Kind.INVALID,
        r"lab\.world: there is no changelog lab\.world_changelog \(did you mean world_changelogs\?\)",
    ),
    "changelog recreated": (
        recreate_changelog,
        Kind.INVALID,
        "was dropped and recreated.*rebuild the mirror",
    ),
    "unknown operation": (
        bad_value("cdc_operation", "TRUNCATE"),
        Kind.INVALID,
        r"lab\.world_changelog: unknown operation 'TRUNCATE' .*Check .*operation_values.*roll the changelog back",
    ),
    "NULL operation": (
        bad_value("cdc_operation", None),
        Kind.INVALID,
        r"unknown operation NULL in row 1; known are [A-Z, ]+\. Check operation_column .*roll the changelog back",
    ),
    "NULL key": (
        bad_value("id", None),
        Kind.INVALID,
        r"lab\.world_changelog: .*NULL in row 1.*Check primary_keys .*roll .* before \d+.*The file: .*\.parquet$",
    ),
    "malformed sequence": (
        bad_value("sequence_number", "7"),
        Kind.INVALID,
        "does not hold a sequence in row 1; expected 16 hex digits",
    ),
    "NULL sequence": (
        bad_value("sequence_number", None),
        Kind.INVALID,
        r"changelog: .*number is NULL in row 1.*Check sequence_column .*roll",
    ),
    "truncated file": (truncate_file, Kind.CORRUPT, r"not a readable Parquet file.*\.parquet"),
    "unreadable file": (garble_file, Kind.CORRUPT, r"not a readable Parquet file.*\.parquet"),
    "missing file": (
        remove_file,
        Kind.CORRUPT,
        "a data file is missing.*Restore it.*recreate the changelog",
    ),
    "file without the key": (remove_key_column, Kind.INVALID, "has no column with field id 1"),
    "missing key column": (
        with_options("primary_keys: [idd]"),
        Kind.INVALID,
        "has no column idd; did you mean id",
    ),
    "missing sequence column": (with_options("sequence_column: lsn"), Kind.INVALID, "has no column lsn; "),
    "another key": (with_options("primary_keys: [name]"), Kind.INVALID, "Set primary_keys back"),
    "rows deleted from the changelog": (
        delete_from_changelog,
        Kind.INVALID,
        r"may only be appended. Keep the mirror: .* Roll the changelog back to the snapshot \d+ .*then rebuild",
    ),
    "changelog rolled back": (roll_changelog_back, Kind.INVALID, "rolled back.*rebuild the mirror"),
    "expired cursor": (expire_cursor, Kind.INVALID, "expired.*rebuild the mirror"),
    "schema change with strict policy": (
        add_column_with_strict_policy,
        Kind.INVALID,
        r"its schema changed \(new column more \(long\)\), and schema_policy is strict.*To accept it, set",
    ),
    "incompatible type": (
        change_type,
        Kind.INVALID,
        r"column name changed from string to long, which Iceberg cannot promote.*Change it back, or leave the column",
    ),
    "column of the mirror renamed": (
        rename_mirror_column,
        Kind.INVALID,
        r"^lab\.world: another engine changed the mirror's columns \(column name renamed to title\)",
    ),
    "column added to the mirror": (
        add_mirror_column,
        Kind.INVALID,
        r"^lab\.world: another engine changed the mirror's columns \(column note added\).*Drop added columns",
    ),
    "column dropped from the mirror": (
        drop_mirror_column,
        Kind.INVALID,
        r"^lab\.world: another engine changed the mirror's columns \(column name dropped\).*drop the mirror, then",
    ),
    "duplicate key in the mirror": (
        duplicate_a_key_in_the_mirror,
        Kind.INVALID,
        "has the key of.*delete one of them",
    ),
    "foreign table": (replace_mirror_by_another_table, Kind.INVALID, "icemirror did not create it. Drop it"),
    "missing data file": (
        remove_data_file,
        Kind.CORRUPT,
        "a data file is missing.*Restore it.*rebuild the mirror",
    ),
}
