"""Output of `explain-key` for users and scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from icemirror.cli.main import run
from tests.lab import foreign
from tests.lab.bad_rows import bad_events
from tests.lab.bad_rows import make as make_rejecting
from tests.lab.damage import root_of
from tests.lab.lab import Lab, local_path, sequence_text
from tests.tables.cli.no_spark import forbid_spark


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_spark(monkeypatch, 80)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10=a I2@20=secret-value I3@30")
    lab.merge()
    lab.commit_events("U1@20=b D3@40", "U1@5=late")
    lab.merge()
    lab.commit_events("U1@50=next")
    return lab


def command(lab: Lab, key: str, *arguments: str) -> int:
    config = str(lab.settings.source_path)
    return run(["explain-key", "-c", config, "--table", "lab.world", "--key", key, *arguments])


def test_row_is_explained_in_text(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lab, '{"id": 1}') == 0
    shown = capsys.readouterr().out
    assert shown.startswith("lab.world, id=1: present\n")
    assert re.search(r"row +\d of file://.*\.parquet\n", shown)
    assert re.search(r"written by +a merge, snapshot \d+ of \d{4}-", shown)
    assert f"index       has the row, with sequence {sequence_text(20)} of commit 2\n" in shown
    assert re.search(r'values +id +1\n +name +"b"\n', shown)
    assert f"1  UPDATE  {sequence_text(5)}  late: older than event 3" in shown
    assert f"2  INSERT  {sequence_text(10)}  replaced by event 3 with sequence {sequence_text(20)}" in shown
    assert f"3  UPDATE  {sequence_text(20)}  wrote the row\n" in shown
    assert (
        f"4  UPDATE  {sequence_text(50)}  not merged yet (waits after the cursor): will write the row"
        in shown
    )
    assert re.search(r"snapshot \d+ of \S+, row 0 of file://.*\n +id=1, name=\"next\"", shown)
    assert re.search(r"read 4 of 4 changelog files, 1 of \d data files; ", shown)


def test_deleted_row_and_an_unknown_key_are_reported(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lab, "3") == 0
    shown = capsys.readouterr().out
    assert "lab.world, id=3: deleted" in shown
    assert f"has a tombstone, with sequence {sequence_text(40)} of commit 2" in shown
    assert command(lab, "99") == 0
    assert "lab.world, id=99: not in the mirror" in capsys.readouterr().out


def test_json_is_one_object_with_stable_names(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lab, "1", "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    report: dict[str, Any] = json.loads(line)
    assert list(report) == [
        "table", "changelog", "key", "state", "equal", "complete", "snapshot_id", "cursor", "row", "index",
        "events", "rejected", "findings", "unreadable", "notes", "read", "seconds",
    ]  # fmt: skip
    assert list(report["row"]) == [
        "file", "position", "written_by", "snapshot_id", "committed_at", "values", "flagged",
    ]  # fmt: skip
    assert report["row"]["flagged"] is None, "deletes do not keep their rows"
    assert list(report["index"]) == ["says", "file", "position", "check", "sequence", "commit"]
    assert list(report["events"][0]) == [
        "number", "operation", "does", "sequence", "snapshot_id", "commit", "committed_at", "file", "position",
        "merged", "fate", "will", "by", "repeat_of", "words", "values",
    ]  # fmt: skip
    assert list(report["read"]) == ["changelog_files", "of_changelog_files", "data_files", "of_data_files"]
    assert (report["state"], report["row"]["values"]) == ("present", {"id": 1, "name": "b"})


def test_reference_documents_every_json_field(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "commands.md").read_text()
    (described,) = re.findall(r"(?s)\n## explain-key\n(.*?)\n## ", page)
    assert command(lab, "1", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    names = {*report, *report["row"], *report["index"], *report["events"][0], *report["read"]}
    assert not [name for name in names if f'"{name}"' not in described]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("abc", "not valid JSON"),
        ('"1"', "id is of type long: expected a whole number of 64 bits, found text"),
        ('{"idd": 1}', "idd is not a key column; did you mean id?"),
        ("{}", "id is missing: the key is id"),
        ("null", "id is NULL"),
    ],
)
def test_bad_key_is_bad_usage(lab: Lab, capsys: pytest.CaptureFixture[str], key: str, message: str) -> None:
    assert command(lab, key, "--json") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "invalid value for '--key'" in shown.err
    assert message in shown.err


def test_missing_key_is_bad_usage(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain-key", "-c", str(lab.settings.source_path), "--table", "lab.world"]) == 2
    assert "--key" in capsys.readouterr().err


def test_difference_exits_with_5_and_advises_a_repair(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    foreign.delete_rows(lab.mirror, [2])
    assert command(lab, "2") == 5
    shown = capsys.readouterr().out
    assert "missing-row  the changelog has a row" in shown
    assert "`icemirror verify -t lab.world --deep`" in shown
    assert command(lab, "2", "--json") == 5
    assert json.loads(capsys.readouterr().out)["findings"][0]["kind"] == "missing-row"


def test_unreadable_index_exits_with_3(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    for segment in root_of(lab).segments:
        local_path(segment.path).unlink()
    assert command(lab, "1") == 3
    shown = capsys.readouterr().out
    assert "lab.world, id=1: present" in shown
    assert re.search(r"unreadable: file://.*\.segment\.puffin: ", shown)


def test_changelog_that_cannot_be_followed_exits_with_3(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.changelog.refresh().delete("id = 1")
    assert command(lab, "1") == 3
    shown = capsys.readouterr().out
    assert "may only be appended" in shown
    assert "`icemirror replay --full --table lab.world`" in shown


def test_missing_mirror_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10=a")
    assert command(lab, "1") == 0
    shown = capsys.readouterr().out
    assert "lab.world, id=1: the mirror does not exist yet" in shown
    assert "will write the row" in shown


def test_missing_changelog_exits_with_3(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.catalog.drop_table("lab.world_changelog")
    assert command(lab, "1", "--json") == 3
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "invalid"


def test_values_are_not_logged(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    for segment in root_of(lab).segments:
        local_path(segment.path).unlink()
    assert command(lab, "2") == 3
    shown = capsys.readouterr()
    assert "secret-value" in shown.out
    assert "secret-value" not in shown.err


def test_control_characters_in_values_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10=[red]\x1b[31m\x9b31m\u202eabc")
    lab.merge()
    assert command(lab, "1") == 0
    assert r"[red]\u001b[31m\u009b31m\u202eabc" in capsys.readouterr().out


def test_long_values_are_cut_in_text_but_not_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events(f"I1@10={'x' * 500}")
    lab.merge()
    assert command(lab, "1") == 0
    assert "x" * 200 not in capsys.readouterr().out
    assert command(lab, "1", "--json") == 0
    assert "x" * 500 in capsys.readouterr().out


def test_rejected_events_are_listed_separately(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = make_rejecting(tmp_path)
    lab.commit(bad_events("I1@1=a X1@2=b"))
    lab.merge()
    assert command(lab, "1") == 0
    shown = capsys.readouterr().out
    assert "rejected events, which do not count" in shown
    assert "rejected: the operation is none of operation_values" in shown
    assert "row 1 of " in shown
    assert command(lab, "1", "--json") == 0
    (event,) = json.loads(capsys.readouterr().out)["rejected"]
    assert list(event) == [
        "reason", "snapshot_id", "commit", "committed_at", "file", "position", "merged", "words",
    ]  # fmt: skip
    assert (event["reason"], event["merged"]) == ("unknown-operation", True)
