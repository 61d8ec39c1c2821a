"""How cursors are written, and that those of before are still read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from icemirror.tables.cursor import Cursor, CursorSource, Truncation

BEFORE = '{"version":1,"sources":[{"uuid":"u","snapshot_id":7,"sequence_number":3,"files_done":null}]}'


def test_a_cursor_without_a_truncation_is_written_as_ever() -> None:
    cursor = Cursor(sources=(CursorSource(uuid="u", snapshot_id=7, sequence_number=3),))
    assert cursor.model_dump_json() == BEFORE
    assert Cursor.model_validate_json(BEFORE) == cursor
    assert "truncated" not in cursor.model_dump(mode="json")["sources"][0]
    assert cursor.model_dump(exclude_none=True)["sources"] == (
        {"uuid": "u", "snapshot_id": 7, "sequence_number": 3},
    )


def test_a_cursor_with_a_truncation_is_read_as_it_was_written() -> None:
    last = Truncation(columns=(4, 5), sequence=((1 << 64) - 1, 0), commit=3, file=0, row=9)
    cursor = Cursor.model_validate_json(BEFORE).with_truncation(last)
    assert cursor.source.truncated == last
    assert Cursor.model_validate_json(cursor.model_dump_json()) == cursor
    assert Cursor.model_validate(cursor.model_dump(mode="json")) == cursor


def test_what_a_later_version_writes_is_refused() -> None:
    with pytest.raises(ValidationError):
        Cursor.model_validate_json(BEFORE.replace('"files_done"', '"more":1,"files_done"'))


def test_the_later_one_of_two_truncations_is_by_sequence_commit_file_and_row() -> None:
    def at(*place: int) -> Truncation:
        *sequence, commit, file, row = place
        return Truncation(columns=(4,), sequence=tuple(sequence), commit=commit, file=file, row=row)

    ascending = [at(1, 9, 9, 9), at(2, 1, 9, 9), at(2, 2, 0, 9), at(2, 2, 1, 0), at(2, 2, 1, 1)]
    orders = [one.order for one in ascending]
    assert orders == sorted(orders)
