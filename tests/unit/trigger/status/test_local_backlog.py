"""The backlog between the cursor and the noticed head, from a local metadata file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from icemirror.protocol.rows import TableRow
from icemirror.step_results import Backlog, MirrorStatus
from icemirror.tables.cursor import Cursor, CursorSource
from trigger.status.local_backlog import LocalBacklogs


def commit(number: int, operation: str = "append", **summary: str) -> dict[str, Any]:
    return {
        "snapshot-id": number,
        "timestamp-ms": number * 1000,
        "summary": {"operation": operation, **summary},
        **({"parent-snapshot-id": number - 1} if number > 1 else {}),
    }


COMMITS = [
    commit(1, **{"added-records": "5"}),
    commit(2, **{"added-records": "7"}),
    commit(3, "replace", **{"added-records": "12"}),
    commit(4),
    commit(5, **{"added-records": "2"}),
]


def head(folder: Path, commits: list[dict[str, Any]] = COMMITS, name: str = "a.metadata.json") -> str:
    metadata = {
        "table-uuid": "u",
        "current-snapshot-id": commits[-1]["snapshot-id"] if commits else -1,
        "snapshots": commits,
    }
    content = json.dumps(metadata).encode()
    (folder / name).write_bytes(gzip.compress(content) if ".gz." in name else content)
    return f"file://{folder / name}"


def row(noticed: str | None, merged: int = 1, uuid: str = "u", files_done: int | None = None) -> TableRow:
    source = CursorSource(uuid=uuid, snapshot_id=merged, sequence_number=merged, files_done=files_done)
    position = MirrorStatus(cursor=Cursor(sources=(source,)), live_rows=1, index_bytes=1)
    return TableRow("t", dirty=1, noticed_head=noticed, position=position)


@pytest.mark.parametrize("name", ["a.metadata.json", "a.gz.metadata.json"])
@pytest.mark.parametrize(
    ("merged", "backlog"),
    [
        (1, Backlog(snapshots=4, events=9, since=2.0)),
        (4, Backlog(snapshots=1, events=2, since=5.0)),
        (5, Backlog(snapshots=0, events=0)),
    ],
)
def test_backlog_contains_the_commits_after_the_cursor(
    tmp_path: Path, name: str, merged: int, backlog: Backlog
) -> None:
    assert LocalBacklogs().measure(row(head(tmp_path, name=name), merged)) == backlog


def test_commit_of_an_abandoned_branch_is_not_counted(tmp_path: Path) -> None:
    rolled_back = {**commit(9, **{"added-records": "1"}), "parent-snapshot-id": 2}
    assert LocalBacklogs().measure(row(head(tmp_path, [*COMMITS, rolled_back]), 2)) == Backlog(
        snapshots=1, events=1, since=9.0
    )
    assert LocalBacklogs().measure(row(head(tmp_path, [*COMMITS, rolled_back]), 4)) is None


def test_unknown_backlog_is_not_guessed(tmp_path: Path) -> None:
    local_backlogs, known = LocalBacklogs(), head(tmp_path)
    assert local_backlogs.measure(row(None)) is None
    assert local_backlogs.measure(TableRow("t", dirty=1, noticed_head=known)) is None
    empty = MirrorStatus(cursor=Cursor(sources=()), live_rows=0, index_bytes=0)
    assert local_backlogs.measure(TableRow("t", dirty=1, noticed_head=known, position=empty)) is None
    assert local_backlogs.measure(row(known, files_done=1)) is None
    assert local_backlogs.measure(row(known, uuid="made anew")) is None
    assert local_backlogs.measure(row(known, merged=77)) is None


@pytest.mark.parametrize(
    "location", ["s3://lake/a.metadata.json", "a.metadata.json", "file:///nowhere/a.json", ""]
)
def test_only_local_files_are_read(location: str) -> None:
    assert LocalBacklogs().measure(row(location)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"snapshots": [{}]}', '{"snapshots": 7}'])
def test_invalid_metadata_file_gives_no_backlog(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.metadata.json").write_text(text)
    assert LocalBacklogs().measure(row(f"file://{tmp_path}/a.metadata.json")) is None


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_commit_that_is_invalid_in_a_changelog_gives_no_backlog(tmp_path: Path, operation: str) -> None:
    local_backlogs, known = (
        LocalBacklogs(),
        head(tmp_path, [*COMMITS[:2], commit(3, operation), *COMMITS[3:]]),
    )
    assert local_backlogs.measure(row(known)) is None
    assert local_backlogs.measure(row(known, merged=4)) == Backlog(snapshots=1, events=2, since=5.0)


def test_head_is_read_once(tmp_path: Path) -> None:
    local_backlogs, known = LocalBacklogs(), head(tmp_path)
    first = local_backlogs.measure(row(known))
    (tmp_path / "a.metadata.json").unlink()
    assert local_backlogs.measure(row(known)) == first
    assert local_backlogs.measure(row(head(tmp_path, COMMITS[:4], "b.metadata.json"))) == Backlog(
        snapshots=3, events=7, since=2.0
    )
