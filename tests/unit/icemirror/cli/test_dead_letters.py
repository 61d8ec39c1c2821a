"""`icemirror dead-letters`: list, redrive, drop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icemirror.cli.main import run
from icemirror.errors import Invalid, Transient
from icemirror.stores.dead_letters import DeadLetter, new_letter
from icemirror.stores.sqlite import SqliteStore
from icemirror.telemetry.redaction import forget_secrets, register_secret
from trigger.dispatch.ingest import EventIngest

CONFIG = """
iceberg: {{catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/wh"}}}}
tables: [{{changelog: shop.orders_changelog, mirror: shop.orders, primary_keys: [id]}}]
trigger: {{state: {{type: sqlite, path: "{folder}/state/state.db"}}}}
telemetry: {{prometheus: null}}
"""
FIRST = new_letter("kafka", "no such table", 1.0, '{"table":\n "shop.x"}')
SECOND = new_letter("http", "a body over 64 KB", 2.0, b"x" * 70_000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "icemirror.yaml").write_text(CONFIG.format(folder=tmp_path))
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(tmp_path / "icemirror.yaml"))
    return tmp_path


@pytest.fixture
def letters(folder: Path) -> Callable[[], list[str]]:
    """Store two letters and return a function that returns the ids of the stored ones."""
    with SqliteStore(folder / "state" / "state.db") as store:
        store.put_letter(FIRST)
        store.put_letter(SECOND)

    def stored_ids() -> list[str]:
        with SqliteStore(folder / "state" / "state.db") as store:
            return [letter.id for letter in store.letters()]

    return stored_ids


def replace_redrive(monkeypatch: pytest.MonkeyPatch, redrive: Callable[[DeadLetter], None]) -> None:
    monkeypatch.setattr(EventIngest, "redrive", lambda ingest, letter: redrive(letter))


def lines(capfd: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_listing_shows_each_letter_on_a_line(
    letters: Callable[[], list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["dead-letters"]) == 0
    header, first, second = capfd.readouterr().out.splitlines()
    assert header.split() == ["id", "source", "received", "reason", "event"]
    assert [FIRST.id, "kafka", "1970-01-01T00:00:01"] == first.split()[:3]
    assert first.rstrip().endswith('{"table": "shop.x"}')
    assert second.startswith(SECOND.id)


def test_listing_as_json_has_the_whole_event(
    letters: Callable[[], list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["dead-letters", "--json", "list"]) == 0
    first, second = lines(capfd)
    assert first == {
        "id": FIRST.id,
        "source": "kafka",
        "reason": "no such table",
        "received_at": "1970-01-01T00:00:01.000+00:00",
        "body": FIRST.body,
        "whole": True,
    }
    assert not second["whole"]


def test_secrets_of_the_configuration_are_not_shown(
    letters: Callable[[], list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    register_secret("shop.x")
    try:
        assert run(["dead-letters", "--json"]) == 0
    finally:
        forget_secrets()
    assert "shop.x" not in capfd.readouterr().out


def test_missing_state_is_not_created(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["redrive"], ["drop", "--all"]):
        assert run(["dead-letters", *arguments]) == 0
        assert "no dead letters" in capfd.readouterr().err
    assert run(["dead-letters", "--json"]) == 0
    assert capfd.readouterr() == ("", "")
    assert not (folder / "state").exists()


def test_redriven_letter_is_removed_and_refused_one_stays(
    letters: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sent: list[DeadLetter] = []
    replace_redrive(monkeypatch, sent.append)
    assert run(["dead-letters", "redrive"]) == 3
    shown = capfd.readouterr()
    assert shown.out == f"{FIRST.id}: accepted\n"
    assert f"error: {SECOND.id}: only a part of the event was kept" in shown.err
    assert sent == [FIRST]
    assert letters() == [SECOND.id]


@pytest.mark.parametrize(("error", "code"), [(Invalid("no such table"), 3), (Transient("no answer"), 4)])
def test_refused_letter_states_the_reason(
    letters: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    def refuse(letter: DeadLetter) -> None:
        raise error

    replace_redrive(monkeypatch, refuse)
    assert run(["dead-letters", "redrive", "--id", FIRST.id, "--json"]) == code
    (result,) = lines(capfd)
    assert (result["outcome"], result["error"]["message"]) == ("refused", str(error))
    assert letters() == [FIRST.id, SECOND.id]


def test_letters_are_dropped_by_id_or_all_at_once(
    letters: Callable[[], list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["dead-letters", "drop", "--id", SECOND.id]) == 0
    assert capfd.readouterr().out == f"{SECOND.id}: dropped\n"
    assert letters() == [FIRST.id]
    assert run(["dead-letters", "drop", "--all", "--json"]) == 0
    assert lines(capfd) == [{"id": FIRST.id, "source": "kafka", "outcome": "dropped", "error": None}]
    assert letters() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drop"], "either --id or --all"),
        (["drop", "--all", "--id", FIRST.id], "either --id or --all"),
        (["redrive", "--id", "nothing"], "no dead letter has the id nothing"),
        (["burn"], "burn"),
    ],
)
def test_contradictory_arguments_are_refused(
    letters: Callable[[], list[str]],
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    assert run(["dead-letters", *arguments]) == 2
    assert words in capfd.readouterr().err
    assert letters() == [FIRST.id, SECOND.id]
