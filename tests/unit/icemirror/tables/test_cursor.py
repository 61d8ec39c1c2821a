"""The stored form of cursors, including the one of earlier releases."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from icemirror.tables.cursor import Cursor, CursorSource, Truncation

STORED = '{"version":1,"sources":[{"uuid":"u","snapshot_id":7,"sequence_number":3,"files_done":null}]}'


def test_cursor_without_a_truncation_has_the_earlier_stored_form() -> None:
    cursor = Cursor(sources=(CursorSource(uuid="u", snapshot_id=7, sequence_number=3),))
    assert cursor.model_dump_json() == STORED
    assert Cursor.model_validate_json(STORED) == cursor
    assert "truncated" not in cursor.model_dump(mode="json")["sources"][0]
    assert cursor.model_dump(exclude_none=True)["sources"] == (
        {"uuid": "u", "snapshot_id": 7, "sequence_number": 3},
    )


def test_cursor_with_a_truncation_is_equal_after_a_round_trip() -> None:
    last = Truncation(columns=(4, 5), sequence=((1 << 64) - 1, 0), commit=3, file=0, row=9)
    cursor = Cursor.model_validate_json(STORED).with_truncation(last)
    assert cursor.source.truncated == last
    assert Cursor.model_validate_json(cursor.model_dump_json()) == cursor
    assert Cursor.model_validate(cursor.model_dump(mode="json")) == cursor


def test_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError):
        Cursor.model_validate_json(STORED.replace('"files_done"', '"more":1,"files_done"'))


def test_truncations_are_ordered_by_sequence_commit_file_and_row() -> None:
    def at(*order: int) -> Truncation:
        *sequence, commit, file, row = order
        return Truncation(columns=(4,), sequence=tuple(sequence), commit=commit, file=file, row=row)

    ascending = [at(1, 9, 9, 9), at(2, 1, 9, 9), at(2, 2, 0, 9), at(2, 2, 1, 0), at(2, 2, 1, 1)]
    orders = [truncation.order for truncation in ascending]
    assert orders == sorted(orders)
