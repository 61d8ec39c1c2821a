"""Output of `verify`, `adopt` and `inspect-index` for users and scripts; small tables start no Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from icemirror.cli.main import run
from icemirror.cli.terminal import console
from tests.lab import foreign
from tests.lab.damage import root_of
from tests.lab.lab import Lab, local_path
from tests.lab.tables import make_table
from tests.tables.cli.no_spark import forbid_spark


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_spark(monkeypatch, 200)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@20 I3@30")
    return lab


def command(lab: Lab, *arguments: str) -> int:
    return run([*arguments, "-c", str(lab.settings.source_path), "--table", "lab.world"])


def read_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capsys.readouterr().out.splitlines()
    report: dict[str, Any] = json.loads(line)
    return report


def test_inspect_index_lists_runs_and_segments(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.merge()
    lab.commit_events("U2@40 D3@50")
    lab.merge()
    assert command(lab, "inspect-index", "--json") == 0
    report = read_json(capsys)
    assert (report["live_rows"], report["entries"], report["tombstones"], report["files"]) == (2, 5, 1, 2)
    assert (report["epoch"], report["of_head"], report["encoding"], report["unreadable"]) == (
        2,
        True,
        "ordered-64",
        [],
    )
    assert report["snapshot_id"] == report["head"]
    assert report["root"].endswith(".root.puffin")
    assert [run["entries"] for run in report["runs"]] == [2, 3]
    assert report["bytes_per_key"] == round(report["bytes"] / 5, 2)
    assert command(lab, "inspect-index") == 0
    text = capsys.readouterr().out
    assert re.search(r"snapshot +\d+ +current", text)
    assert "█" in text


def test_inspect_index_fits_80_columns_without_truncation(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    lab.merge()
    assert command(lab, "inspect-index") == 0
    text = capsys.readouterr().out
    headers = "run tier segments entries tombstones size bytes/key"
    assert headers in " ".join(text.split())
    assert "█" not in text
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_inspect_index_reports_foreign_writes(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.merge()
    foreign.append(lab.mirror, [(9, "theirs")])
    assert command(lab, "inspect-index") == 0
    assert "foreign writes since" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["segment", "root"])
def test_inspect_index_lists_unreadable_files(
    lab: Lab, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    lab.merge()
    segment = local_path(root_of(lab).segments[0].path)
    path = segment if part == "segment" else next(segment.parent.glob("*.root.puffin"))
    path.unlink()
    assert command(lab, "inspect-index", "--json") == 3
    report = read_json(capsys)
    assert [Path(entry["path"]).name for entry in report["unreadable"]] == [path.name]
    assert command(lab, "inspect-index") == 3


def test_inspect_index_without_a_mirror_is_refused(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lab, "inspect-index") == 3
    assert "there is no mirror yet; the first merge that finds events" in capsys.readouterr().err.replace(
        "\n", " "
    )


@pytest.mark.parametrize("options", [[], ["--deep"], ["--sample", "5"]])
def test_verify_exits_with_0_if_equal(
    lab: Lab, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    lab.merge()
    assert command(lab, "verify", *options) == 0
    shown = capsys.readouterr().out
    is_deep = "--deep" in options
    assert ("lab.world: equal" if is_deep else "lab.world: index and rows agree") in shown
    assert ("not checked: rows against the changelog" in shown) is not is_deep
    assert ("sampled: " in shown) is not is_deep
    assert command(lab, "verify", "--json", *options) == 0
    report = read_json(capsys)
    assert report["equal"] is True
    assert report["findings"] == []


def test_verify_exits_with_5_at_a_difference_and_shows_no_keys(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.merge()
    foreign.append(lab.mirror, [(987654, "theirs")])
    assert command(lab, "verify", "--deep") == 5
    shown = capsys.readouterr()
    assert re.search(r"foreign-row  1  the mirror has a row whose key is not in the changelog", shown.out)
    assert "987654" not in shown.out + shown.err
    assert command(lab, "verify", "--deep", "--show-keys") == 5
    assert "key 987654" in capsys.readouterr().out
    assert command(lab, "verify", "--deep", "--allow-foreign") == 0


def test_verify_reports_a_key_that_another_writer_duplicated(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.merge()
    foreign.append(lab.mirror, [(2, "theirs")])
    assert command(lab, "verify") == 5
    shown = capsys.readouterr().out
    assert re.search(r"doubled-key  1  the mirror has a second row with the same key\n +row 0 of ", shown)
    assert "note: the next merge stops at a duplicate key" in shown


def test_verify_without_a_sample_reports_only_counts(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.merge()
    assert command(lab, "verify", "--sample", "0") == 0
    assert "lab.world: counts agree" in capsys.readouterr().out


def test_verify_refuses_deep_with_a_sample(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lab, "verify", "--deep", "--sample", "5") == 2
    assert "exclude each other" in capsys.readouterr().err


def test_verify_without_a_mirror_is_refused(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lab, "verify", "--json") == 3
    assert read_json(capsys)["error"]["kind"] == "invalid"


def test_adopted_mirror_passes_verification(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    make_table(lab, [(1, "I1@10"), (2, "I2@20"), (3, "I3@30")])
    assert command(lab, "adopt", "--merged-up-to", "head", "--dry-run", "--json") == 0
    report = read_json(capsys)
    assert (report["outcome"], report["snapshot_id"]) == ("checked", None)
    assert command(lab, "adopt", "--merged-up-to", "head", "--json") == 0
    report = read_json(capsys)
    assert (report["outcome"], report["live_rows"], report["sets_identifier_fields"]) == ("adopted", 3, True)
    head = lab.changelog.refresh().metadata.current_snapshot_id
    assert head is not None
    assert report["cursor"]["sources"][0]["snapshot_id"] == head
    assert command(lab, "verify", "--deep") == 0


def test_adopt_prints_a_table_of_its_result(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    make_table(lab, [(1, "I1@10")])
    assert command(lab, "adopt") == 0
    assert re.search(r"lab\.world +adopted +1 +1 .* nothing", capsys.readouterr().out)


def test_adopt_refuses_with_a_specific_error(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.merge()
    assert command(lab, "adopt", "--json") == 3
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["kind"] == "invalid"
    assert "is already the mirror of" in shown.err


def test_adopt_refuses_an_invalid_snapshot(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lab, "adopt", "--merged-up-to", "yesterday") == 2
    assert "neither a snapshot id" in capsys.readouterr().err
