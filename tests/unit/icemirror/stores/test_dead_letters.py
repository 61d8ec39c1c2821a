"""Dead letters: stored fields, dropping, redriving."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.stores.dead_letters import (
    MAX_AGE_SECONDS,
    MAX_BODY_BYTES,
    DeadLetter,
    dump_letter,
    letters_to_drop,
    load_letter,
    new_letter,
    redrive_letters,
)

LETTER = new_letter("kafka", "no such table", 5.0, '{"table": "shöp"}')


def test_id_depends_on_source_and_event_and_not_on_the_reason() -> None:
    repeated = new_letter("kafka", "another reason", 9.0, LETTER.body.encode())
    assert repeated.id == LETTER.id
    assert new_letter("sqs", "no such table", 5.0, LETTER.body).id != LETTER.id
    assert new_letter("kafka", "no such table", 5.0, LETTER.body + " ").id != LETTER.id


def test_large_event_is_truncated_and_has_a_distinct_id() -> None:
    first, second = (
        new_letter("http", "too large", 1.0, b"x" * MAX_BODY_BYTES + end) for end in (b"1", b"2")
    )
    assert (len(first.body), first.whole) == (4096, False)
    assert first.id != second.id
    assert new_letter("http", "r", 1.0, b"x" * MAX_BODY_BYTES).whole


@pytest.mark.parametrize("body", [b"\xff\xfe", "\ud800", "ä" * MAX_BODY_BYTES])
def test_event_that_is_not_valid_text_is_not_whole(body: bytes | str) -> None:
    letter = new_letter("sqs", "mangled", 1.0, body)
    assert not letter.whole
    assert load_letter(letter.id, dump_letter(letter)) == letter


def test_long_reason_is_truncated() -> None:
    assert len(new_letter("sqs", "r" * 10_000, 1.0, "e").reason) == 500


def test_letter_is_equal_after_a_round_trip() -> None:
    assert load_letter(LETTER.id, dump_letter(LETTER)) == LETTER


def test_letter_of_version_1_loads() -> None:
    stored = '{"id":"a","source":"sqs","reason":"r","received_at":1.5,"body":"b","whole":true,"version":1}'
    assert load_letter("a", stored) == DeadLetter("a", "sqs", "r", 1.5, "b")


@pytest.mark.parametrize("body", ["", "[]", "{}", json.dumps({**asdict(LETTER), "version": 2})])
def test_unreadable_letter_is_listed_so_that_it_can_be_dropped(body: str) -> None:
    found = load_letter("a", body)
    assert (found.id, found.whole, found.body) == ("a", False, body)
    assert "unreadable letter" in found.reason


def test_expired_and_oldest_letters_are_dropped() -> None:
    now = 10.0 + MAX_AGE_SECONDS
    assert letters_to_drop([("a", now), ("b", 9.0), ("c", 10.0), ("d", 11.0)], now, max_letters=2) == [
        "c",
        "b",
    ]
    assert letters_to_drop([("a", 1.0), ("b", 2.0)], 2.0, max_letters=2) == []


def test_redriven_letter_is_removed_and_refused_one_stays() -> None:
    refused, transient = replace(LETTER, id="refused"), replace(LETTER, id="passing")
    partial = replace(LETTER, id="part", whole=False)
    sent: list[str] = []
    removed: list[str] = []

    def redrive(letter: DeadLetter) -> None:
        sent.append(letter.id)
        if letter.id == "refused":
            raise Invalid("no such table")
        if letter.id == "passing":
            raise Transient("the state did not answer")

    results = list(redrive_letters([refused, transient, partial, LETTER], redrive, removed.append))
    assert [(letter.id, error and str(error)) for letter, error in results][:2] == [
        ("refused", "no such table"),
        ("passing", "the state did not answer"),
    ]
    assert "only a part" in str(results[2][1])
    assert results[3] == (LETTER, None)
    assert sent == ["refused", "passing", LETTER.id]
    assert removed == [LETTER.id]


def test_unexpected_error_keeps_the_letter() -> None:
    removed: list[str] = []

    def redrive(letter: DeadLetter) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(redrive_letters([LETTER], redrive, removed.append))
    assert removed == []
