"""A real PostgreSQL as the source: its changes are decoded into a changelog, and the mirror equals the table."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.services.pg_profiles import Debezium, Profile, SupabaseEtl
from tests.services.pg_run import MirroredSource, run_seed
from tests.services.pg_source import TABLE, Source, source
from tests.services.pg_values import large
from tests.services.postgres import Postgres

LARGE = large("text", random.Random(1))
ALL: tuple[Profile, ...] = (SupabaseEtl(), Debezium("lsn"), Debezium("lsn and ordinal"), Debezium("sequence"))
IGNORED = "operation_values: {insert: [c, r], update: [u], delete: [d], ignore: [t]}"


@pytest.fixture
def world(postgres_server: Postgres) -> Iterator[Source]:
    """Return a source with three rows, the first of them large."""
    with source(postgres_server) as opened:
        opened.run(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, name text, body text)")
        opened.run(f"INSERT INTO {TABLE} VALUES (1, 'a', %s), (2, 'b', NULL), (3, 'c', 'x')", (LARGE,))
        yield opened


# First in the file: the log is still short, so that LSNs get another digit soon.
def test_lsns_of_different_lengths_are_ordered_as_numbers(tmp_path: Path, world: Source) -> None:
    mirrors = [mirror_source(tmp_path / str(index), world, profile) for index, profile in enumerate(ALL)]

    def merge() -> None:
        changes = list(world.changes())
        for mirrored in mirrors:
            mirrored.changelog.write(changes)
            mirrored.lab.merge()
            mirrored.check()

    world.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    for name in ("early", "before"):
        world.run(f"UPDATE {TABLE} SET name = %s WHERE id < 3", (name,))
    merge()
    world.advance_lsn_to_more_digits()
    world.run(f"UPDATE {TABLE} SET name = 'after' WHERE id = 1")
    world.run(f"DELETE FROM {TABLE} WHERE id = 2")
    merge()


@pytest.mark.parametrize("seed", range(4))
def test_mirror_equals_the_source_after_each_merge(
    tmp_path: Path, postgres_server: Postgres, seed: int
) -> None:
    done = run_seed(postgres_server, tmp_path, seed, steps=4)
    print(done)
    assert done["rows compared"]


def mirror_source(folder: Path, world: Source, profile: Profile, options: str = "") -> MirroredSource:
    """Return a mirror with the rows of the initial copy."""
    folder.mkdir(exist_ok=True)
    mirrored = MirroredSource.make(folder, world, profile, random.Random(1), options=options)
    mirrored.lab.merge()
    assert mirrored.check() == 3
    return mirrored


def merge_error(mirrored: MirroredSource) -> str:
    """Return the message of a failed merge, which leaves the mirror unchanged."""
    before = mirrored.lab.mirror.metadata_location
    mirrored.drain()
    error = mirrored.lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert mirrored.lab.mirror.metadata_location == before
    return error.message


def names_by_id(mirrored: MirroredSource) -> dict[int, str]:
    return dict(sorted(mirrored.lab.rows().items()))


def test_supabase_etl_recreates_its_changelog_after_a_truncate_and_the_mirror_is_rebuilt(
    tmp_path: Path, world: Source
) -> None:
    mirrored = mirror_source(tmp_path, world, SupabaseEtl())
    world.run(f"TRUNCATE {TABLE}")
    mirrored.drain()
    assert mirrored.lab.merge().outcome == "rebuilt"
    assert mirrored.check() == 0
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    mirrored.drain()
    mirrored.lab.merge()
    assert mirrored.check() == 1


def test_recreated_supabase_etl_changelog_blocks_with_on_truncate_stop(tmp_path: Path, world: Source) -> None:
    mirrored = mirror_source(tmp_path, world, SupabaseEtl(), "on_truncate: stop")
    world.run(f"TRUNCATE {TABLE}")
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    assert "on_truncate" in merge_error(mirrored)
    assert names_by_id(mirrored) == {1: "a", 2: "b", 3: "c"}


def test_key_renamed_before_a_truncate_is_rejected_as_a_different_key(tmp_path: Path, world: Source) -> None:
    mirrored = mirror_source(tmp_path, world, SupabaseEtl())
    world.run(f"ALTER TABLE {TABLE} RENAME id TO number")
    world.run(f"TRUNCATE {TABLE}")
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    assert "its key is id, but the settings name" in merge_error(mirrored)


@pytest.mark.parametrize("profile", [profile for profile in ALL if isinstance(profile, Debezium)], ids=str)
def test_debezium_truncate_event_truncates_the_mirror(
    tmp_path: Path, world: Source, profile: Debezium
) -> None:
    mirrored = mirror_source(tmp_path, world, profile)
    world.run(f"INSERT INTO {TABLE} VALUES (4, 'd', NULL)")
    world.run(f"TRUNCATE {TABLE}")
    mirrored.drain()
    assert mirrored.lab.merge().outcome == "rebuilt"
    assert mirrored.check() == 0
    with world.connection.cursor() as cursor:
        cursor.execute(f"BEGIN; INSERT INTO {TABLE} VALUES (1, 'one', NULL); TRUNCATE {TABLE}")
        cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL), (2, 'new', NULL); COMMIT")
    world.run(f"UPDATE {TABLE} SET name = 'newer' WHERE id = 2")
    mirrored.drain()
    mirrored.lab.merge()
    assert mirrored.check() == 2
    world.run(f"DELETE FROM {TABLE} WHERE id = 1")
    mirrored.drain()
    assert mirrored.lab.merge().outcome == "merged"
    assert mirrored.check() == 1


def test_debezium_truncate_event_with_on_truncate_stop_blocks_until_the_source_is_copied_again(
    tmp_path: Path, world: Source
) -> None:
    mirrored = mirror_source(tmp_path, world, Debezium(), "on_truncate: stop")
    world.run(f"INSERT INTO {TABLE} VALUES (4, 'd', NULL)")
    world.run(f"TRUNCATE {TABLE}")
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    assert "reports a truncation of the source ('t')" in merge_error(mirrored)
    mirrored.lab = mirrored.lab.reconfigure(mirrored.changelog.profile.options)
    mirrored.changelog.recreate()
    mirrored.changelog.copy()
    assert mirrored.lab.merge().outcome == "rebuilt"
    assert mirrored.check() == 1


def test_ignored_debezium_truncate_event_keeps_all_rows(tmp_path: Path, world: Source) -> None:
    mirrored = mirror_source(tmp_path, world, Debezium(), IGNORED)
    world.run(f"TRUNCATE {TABLE}")
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    mirrored.drain()
    mirrored.lab.merge()
    assert names_by_id(mirrored) == {1: "new", 2: "b", 3: "c"}


def test_key_change_in_supabase_etl_keeps_the_old_row(tmp_path: Path, world: Source) -> None:
    mirrored = mirror_source(tmp_path, world, SupabaseEtl())
    world.run(f"UPDATE {TABLE} SET id = 9 WHERE id = 3")
    mirrored.drain()
    mirrored.lab.merge()
    assert names_by_id(mirrored) == {1: "a", 2: "b", 3: "c", 9: "c"}


@pytest.mark.parametrize("before", [False, True])
def test_key_change_in_debezium_with_an_omitted_large_value_gives_a_specific_error(
    tmp_path: Path, world: Source, before: bool
) -> None:
    mirrored = mirror_source(tmp_path, world, Debezium(before=before))
    world.run(f"UPDATE {TABLE} SET id = 9 WHERE id = 1")
    assert "states that body has not changed" in merge_error(mirrored)


@pytest.mark.parametrize("before", [False, True])
def test_key_change_in_debezium_with_full_replica_identity_is_merged(
    tmp_path: Path, world: Source, before: bool
) -> None:
    world.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    mirrored = mirror_source(tmp_path, world, Debezium(before=before))
    world.run(f"UPDATE {TABLE} SET id = 9 WHERE id = 1")
    mirrored.drain()
    mirrored.lab.merge()
    assert mirrored.check() == 3


def test_supabase_etl_requires_full_replica_identity_for_large_values(tmp_path: Path, world: Source) -> None:
    mirrored = mirror_source(tmp_path, world, SupabaseEtl())
    world.run(f"UPDATE {TABLE} SET name = 'a2' WHERE id = 1")
    mirrored.drain()
    mirrored.lab.merge()
    rows = {row["id"]: row["body"] for row in mirrored.lab.mirror.scan().to_arrow().to_pylist()}
    assert rows == {1: "", 2: None, 3: "x"}
    world.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    world.run(f"UPDATE {TABLE} SET name = 'a3' WHERE id = 1")
    mirrored.drain()
    mirrored.lab.merge()
    assert mirrored.check() == 3


@pytest.mark.parametrize("profile", [SupabaseEtl(), Debezium()], ids=lambda profile: type(profile).__name__)
def test_default_of_a_new_column_arrives_with_the_next_change_of_a_row(
    tmp_path: Path, world: Source, profile: Profile
) -> None:
    world.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    mirrored = mirror_source(tmp_path, world, profile)
    world.run(f"ALTER TABLE {TABLE} ADD note text DEFAULT 'none'")
    world.run(f"UPDATE {TABLE} SET name = 'a2' WHERE id = 1")
    mirrored.drain()
    mirrored.lab.merge()
    rows = {row["id"]: row["note"] for row in mirrored.lab.mirror.scan().to_arrow().to_pylist()}
    assert rows == {1: "none", 2: None, 3: None}
    world.run(f"UPDATE {TABLE} SET name = name")
    mirrored.drain()
    mirrored.lab.merge()
    assert mirrored.check() == 3


def use_a_key_in_two_transactions(world: Source, key: int) -> None:
    """Use a key in two concurrent transactions.

    The first deletes it; the second inserts it and waits; the first inserts and deletes it again, and commits.
    The second's insert, which must win, is logged before the last delete and committed after it.
    """
    first, second = world.connect(), world.connect()
    with first.cursor() as first_cursor, second.cursor() as second_cursor, ThreadPoolExecutor(1) as pool:
        first_cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
        waiting = pool.submit(second_cursor.execute, f"INSERT INTO {TABLE} VALUES (%s, 'last')", (key,))
        while world.run("SELECT 1 FROM pg_locks WHERE NOT granted") == []:
            assert not waiting.done()
            time.sleep(0.01)
        first_cursor.execute(f"INSERT INTO {TABLE} VALUES (%s, 'gone')", (key,))
        first_cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
        first.commit()
        waiting.result()
        second.commit()
    first.close()
    second.close()


@pytest.mark.parametrize(
    "profile", [SupabaseEtl(), Debezium("sequence")], ids=lambda profile: type(profile).__name__
)
def test_last_commit_determines_a_key_of_two_concurrent_transactions(
    tmp_path: Path, world: Source, profile: Profile
) -> None:
    mirrored = mirror_source(tmp_path, world, profile)
    use_a_key_in_two_transactions(world, 3)
    mirrored.drain()
    mirrored.lab.merge()
    assert mirrored.check() == 3
    assert names_by_id(mirrored)[3] == "last"


def test_lsn_of_a_change_does_not_determine_the_last_commit(tmp_path: Path, world: Source) -> None:
    mirrored = mirror_source(tmp_path, world, Debezium("lsn and ordinal"))
    use_a_key_in_two_transactions(world, 3)
    mirrored.drain()
    mirrored.lab.merge()
    assert names_by_id(mirrored) == {1: "a", 2: "b"}
