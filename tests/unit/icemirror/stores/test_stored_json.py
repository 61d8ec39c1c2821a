"""Rows as JSON, written by this release and older ones."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from icemirror.errors import Invalid
from icemirror.protocol.due_tables import is_blocked
from icemirror.protocol.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.protocol.rows import TableRow
from icemirror.stores.stored_json import dump_row, load_slot, load_table
from tests.unit.icemirror.protocol.samples import INVALID
from tests.unit.icemirror.stores.stored_rows import SLOT_ROW, STORED, TABLE

REPLAYING = TableRow(
    "shop.orders",
    dirty=2,
    covered=1,
    replay=Replay(
        "r2", 5.0, from_snapshot=11, to_snapshot=12, progress=ReplayProgress(3, 9, changed_rows=1, mark="m")
    ),
    last_replay=ReplayEnd("r1", 4.0, "failed", error=INVALID.model_copy(update={"message": "n"})),
)


def test_rows_are_equal_after_a_round_trip_with_the_revision_of_the_store() -> None:
    table, slot = load_table(dump_row(TABLE), "12"), load_slot(dump_row(SLOT_ROW), "13")
    assert (table, slot) == (TABLE, SLOT_ROW)
    assert (table.revision, slot.revision) == ("12", "13")
    assert load_table(dump_row(REPLAYING), "14") == REPLAYING


def test_revision_is_not_stored() -> None:
    assert "revision" not in json.loads(dump_row(TABLE))


def test_rows_of_version_1_load() -> None:
    assert load_table(json.dumps(STORED["table"]), "1") == TABLE
    assert load_table(json.dumps(STORED["replaying"]), "1") == REPLAYING
    assert load_slot(json.dumps(STORED["slot"]), "1") == SLOT_ROW


def test_blocked_table_of_the_previous_release_stays_blocked() -> None:
    error = {"kind": "invalid", "message": "a key is NULL"}
    old = {"version": 1, "name": "t", "dirty": 2, "failures": 1, "quarantined": True, "error": error}
    assert is_blocked(load_table(json.dumps(old), "1"))


def test_missing_field_of_an_old_row_gets_its_default() -> None:
    old = {"version": 1, "name": "t", "dirty": 2}
    assert load_table(json.dumps(old), "1") == TableRow("t", dirty=2)


def test_unknown_fields_of_a_later_release_are_kept() -> None:
    stored = {"version": 1, "name": "t", "colour": "red", "shape": {"sides": 3}, "extra": 1, "revision": 2}
    row = load_table(json.dumps(stored), "7")
    assert (row, row.revision) == (TableRow("t"), "7")
    written = json.loads(dump_row(replace(row, dirty=5)))
    assert (written["dirty"], {name: written[name] for name in stored}) == (5, stored)
    slot = load_slot(json.dumps({**STORED["slot"], "colour": "red"}), "8")
    assert (slot, json.loads(dump_row(slot))["colour"]) == (SLOT_ROW, "red")


def test_known_field_overrides_a_kept_field() -> None:
    row = load_table('{"version": 1, "name": "t", "colour": "red"}', "1")
    forged = replace(row, extra='{"dirty": 9, "colour": "red"}', dirty=1)
    assert load_table(dump_row(forged), "1").dirty == 1


@pytest.mark.parametrize(
    ("field", "value", "location"),
    [
        ("replay", {"id": "r", "requested_at": 1.0, "version": 2}, "replay.version"),
        ("error", {"kind": "unheard-of", "message": "m"}, "error.kind"),
        (
            "last_run",
            {"run_id": "r", "started_at": 1, "ended_at": 2, "outcome": "?", "events": 0},
            "last_run.outcome",
        ),
    ],
)
def test_unknown_value_of_a_later_release_is_not_reported_as_damage(
    field: str, value: object, location: str
) -> None:
    body = json.dumps({"version": 1, "name": "shop.orders", field: value})
    with pytest.raises(Invalid, match=rf'newer icemirror .*row of "shop.orders".* `{location}`.*Upgrade'):
        load_table(body, "1")


def test_unknown_slot_state_of_a_later_release_is_not_reported_as_damage() -> None:
    with pytest.raises(Invalid, match="newer icemirror"):
        load_slot(json.dumps({**STORED["slot"], "state": "draining"}), "1")


def test_row_of_a_newer_version_is_refused_with_a_remedy() -> None:
    with pytest.raises(Invalid, match=r'row of "t": it has version 2, this release knows 1.*Upgrade'):
        load_table(json.dumps({"version": 2, "name": "t", "dirty": "of another shape"}), "1")


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "name": "t", "dirty": "x"}']
)
def test_damaged_row_is_reported(body: str) -> None:
    with pytest.raises(Invalid, match="damaged"):
        load_table(body, "1")
