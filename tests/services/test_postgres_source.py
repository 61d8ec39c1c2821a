"""A real PostgreSQL as the source: what SQL changes there is decoded into a changelog, and the mirror equals it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.services.pg_profiles import Debezium, Profile, SupabaseEtl
from tests.services.pg_run import Followed, run_seed
from tests.services.pg_source import TABLE, Source, source
from tests.services.pg_values import large
from tests.services.postgres import Postgres

LARGE = large("text", random.Random(1))
ALL: tuple[Profile, ...] = (SupabaseEtl(), Debezium("lsn"), Debezium("lsn and place"), Debezium("sequence"))
IGNORED = "operation_values: {insert: [c, r], update: [u], delete: [d], ignore: [t]}"


@pytest.fixture
def world(postgres_server: Postgres) -> Iterator[Source]:
    """Three rows, the first of them large."""
    with source(postgres_server) as opened:
        opened.run(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, name text, body text)")
        opened.run(f"INSERT INTO {TABLE} VALUES (1, 'a', %s), (2, 'b', NULL), (3, 'c', 'x')", (LARGE,))
        yield opened


# First in the file: the log is short yet, and its numbers soon have a digit more.
def test_lsns_that_get_a_digit_more_are_still_in_order(tmp_path: Path, world: Source) -> None:
    every = [follow(tmp_path / str(at), world, profile) for at, profile in enumerate(ALL)]

    def merge() -> None:
        changes = list(world.changes())
        for one in every:
            one.changelog.write(changes)
            one.lab.merge()
            one.check()

    world.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    for name in ("early", "before"):
        world.run(f"UPDATE {TABLE} SET name = %s WHERE id < 3", (name,))
    merge()
    world.skip_to_another_digit()
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


def follow(folder: Path, world: Source, profile: Profile, options: str = "") -> Followed:
    """A mirror with the rows of the initial copy."""
    folder.mkdir(exist_ok=True)
    followed = Followed.make(folder, world, profile, random.Random(1), options=options)
    followed.lab.merge()
    assert followed.check() == 3
    return followed


def refused(followed: Followed) -> str:
    """What the merge says that does not go on; the mirror stays as it is."""
    before = followed.lab.mirror.metadata_location
    followed.drain()
    error = followed.lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert followed.lab.mirror.metadata_location == before
    return error.message


def names(followed: Followed) -> dict[int, str]:
    return dict(sorted(followed.lab.rows().items()))


def test_supabase_etl_makes_its_changelog_anew_after_a_truncate_and_the_mirror_is_rebuilt(
    tmp_path: Path, world: Source
) -> None:
    followed = follow(tmp_path, world, SupabaseEtl())
    world.run(f"TRUNCATE {TABLE}")
    followed.drain()
    assert followed.lab.merge().outcome == "rebuilt"
    assert followed.check() == 0
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    followed.drain()
    followed.lab.merge()
    assert followed.check() == 1


def test_supabase_etl_and_a_truncate_that_a_person_shall_look_at(tmp_path: Path, world: Source) -> None:
    followed = follow(tmp_path, world, SupabaseEtl(), "on_truncate: stop")
    world.run(f"TRUNCATE {TABLE}")
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    assert "on_truncate" in refused(followed)
    assert names(followed) == {1: "a", 2: "b", 3: "c"}


def test_a_key_that_was_renamed_before_a_truncate_is_another_one(tmp_path: Path, world: Source) -> None:
    followed = follow(tmp_path, world, SupabaseEtl())
    world.run(f"ALTER TABLE {TABLE} RENAME id TO number")
    world.run(f"TRUNCATE {TABLE}")
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    assert "its key is id, but the settings name" in refused(followed)


@pytest.mark.parametrize("profile", [one for one in ALL if isinstance(one, Debezium)], ids=str)
def test_debezium_tells_a_truncate_and_the_mirror_follows_it(
    tmp_path: Path, world: Source, profile: Debezium
) -> None:
    followed = follow(tmp_path, world, profile)
    world.run(f"INSERT INTO {TABLE} VALUES (4, 'd', NULL)")
    world.run(f"TRUNCATE {TABLE}")
    followed.drain()
    assert followed.lab.merge().outcome == "rebuilt"
    assert followed.check() == 0
    with world.connection.cursor() as cursor:
        cursor.execute(f"BEGIN; INSERT INTO {TABLE} VALUES (1, 'one', NULL); TRUNCATE {TABLE}")
        cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL), (2, 'new', NULL); COMMIT")
    world.run(f"UPDATE {TABLE} SET name = 'newer' WHERE id = 2")
    followed.drain()
    followed.lab.merge()
    assert followed.check() == 2
    world.run(f"DELETE FROM {TABLE} WHERE id = 1")
    followed.drain()
    assert followed.lab.merge().outcome == "merged"
    assert followed.check() == 1


def test_debezium_tells_a_truncate_which_stops_until_the_source_is_copied_anew(
    tmp_path: Path, world: Source
) -> None:
    followed = follow(tmp_path, world, Debezium(), "on_truncate: stop")
    world.run(f"INSERT INTO {TABLE} VALUES (4, 'd', NULL)")
    world.run(f"TRUNCATE {TABLE}")
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    assert "reports a truncation of the source ('t')" in refused(followed)
    followed.lab = followed.lab.reconfigure(followed.changelog.profile.options)
    followed.changelog.make_anew()
    followed.changelog.copy()
    assert followed.lab.merge().outcome == "rebuilt"
    assert followed.check() == 1


def test_a_truncate_that_debezium_tells_and_the_settings_pass_over_keeps_all_rows(
    tmp_path: Path, world: Source
) -> None:
    followed = follow(tmp_path, world, Debezium(), IGNORED)
    world.run(f"TRUNCATE {TABLE}")
    world.run(f"INSERT INTO {TABLE} VALUES (1, 'new', NULL)")
    followed.drain()
    followed.lab.merge()
    assert names(followed) == {1: "new", 2: "b", 3: "c"}


def test_supabase_etl_does_not_tell_the_old_key_of_a_row_so_that_row_stays(
    tmp_path: Path, world: Source
) -> None:
    followed = follow(tmp_path, world, SupabaseEtl())
    world.run(f"UPDATE {TABLE} SET id = 9 WHERE id = 3")
    followed.drain()
    followed.lab.merge()
    assert names(followed) == {1: "a", 2: "b", 3: "c", 9: "c"}


@pytest.mark.parametrize("before", [False, True])
def test_a_large_value_that_debezium_does_not_tell_with_a_new_key_stops_by_name(
    tmp_path: Path, world: Source, before: bool
) -> None:
    followed = follow(tmp_path, world, Debezium(before=before))
    world.run(f"UPDATE {TABLE} SET id = 9 WHERE id = 1")
    assert "states that body has not changed" in refused(followed)


@pytest.mark.parametrize("before", [False, True])
def test_with_whole_rows_as_replica_identity_it_is_told(tmp_path: Path, world: Source, before: bool) -> None:
    world.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    followed = follow(tmp_path, world, Debezium(before=before))
    world.run(f"UPDATE {TABLE} SET id = 9 WHERE id = 1")
    followed.drain()
    followed.lab.merge()
    assert followed.check() == 3


def test_supabase_etl_needs_whole_rows_as_replica_identity_for_large_values(
    tmp_path: Path, world: Source
) -> None:
    followed = follow(tmp_path, world, SupabaseEtl())
    world.run(f"UPDATE {TABLE} SET name = 'a2' WHERE id = 1")
    followed.drain()
    followed.lab.merge()
    rows = {row["id"]: row["body"] for row in followed.lab.mirror.scan().to_arrow().to_pylist()}
    assert rows == {1: "", 2: None, 3: "x"}
    world.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    world.run(f"UPDATE {TABLE} SET name = 'a3' WHERE id = 1")
    followed.drain()
    followed.lab.merge()
    assert followed.check() == 3


@pytest.mark.parametrize("profile", [SupabaseEtl(), Debezium()], ids=lambda one: type(one).__name__)
def test_the_default_of_a_new_column_is_told_with_the_next_change_of_a_row(
    tmp_path: Path, world: Source, profile: Profile
) -> None:
    world.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    followed = follow(tmp_path, world, profile)
    world.run(f"ALTER TABLE {TABLE} ADD note text DEFAULT 'none'")
    world.run(f"UPDATE {TABLE} SET name = 'a2' WHERE id = 1")
    followed.drain()
    followed.lab.merge()
    rows = {row["id"]: row["note"] for row in followed.lab.mirror.scan().to_arrow().to_pylist()}
    assert rows == {1: "none", 2: None, 3: None}
    world.run(f"UPDATE {TABLE} SET name = name")
    followed.drain()
    followed.lab.merge()
    assert followed.check() == 3


def use_a_key_in_two_transactions(world: Source, key: int) -> None:
    """One inserts it, and waits for another that had deleted it, inserts it once more, and deletes it again.

    The insert that counts is logged before the last delete, and committed after it.
    """
    first, second = world.connect(), world.connect()
    with first.cursor() as one, second.cursor() as other, ThreadPoolExecutor(1) as beside:
        one.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
        waiting = beside.submit(other.execute, f"INSERT INTO {TABLE} VALUES (%s, 'last')", (key,))
        while world.run("SELECT 1 FROM pg_locks WHERE NOT granted") == []:
            assert not waiting.done()
            time.sleep(0.01)
        one.execute(f"INSERT INTO {TABLE} VALUES (%s, 'gone')", (key,))
        one.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
        first.commit()
        waiting.result()
        second.commit()
    first.close()
    second.close()


@pytest.mark.parametrize("profile", [SupabaseEtl(), Debezium("sequence")], ids=lambda one: type(one).__name__)
def test_a_key_of_two_transactions_is_as_the_last_commit_leaves_it(
    tmp_path: Path, world: Source, profile: Profile
) -> None:
    followed = follow(tmp_path, world, profile)
    use_a_key_in_two_transactions(world, 3)
    followed.drain()
    followed.lab.merge()
    assert followed.check() == 3
    assert names(followed)[3] == "last"


def test_the_lsn_of_a_change_alone_does_not_tell_which_commit_was_last(tmp_path: Path, world: Source) -> None:
    followed = follow(tmp_path, world, Debezium("lsn and place"))
    use_a_key_in_two_transactions(world, 3)
    followed.drain()
    followed.lab.merge()
    assert names(followed) == {1: "a", 2: "b"}
