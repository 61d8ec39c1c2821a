"""Ids of parametrised tests describe their values."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import pytest
from pyiceberg.types import DecimalType

from tests.support.readable_ids import MOST_CHARACTERS, readable_id


@dataclass
class Fault:
    status: int
    message: str = ""
    retries: int = 3


CASES = {
    "Fault 422 too few cores": Fault(422, "too few cores"),
    "Fault 401": Fault(401),
    "ValueError no such table": ValueError("no such table"),
    "a b": frozenset({"b", "a"}),
    "id: 7": {"id": 7},
    "1 Fault 500": (1, Fault(500)),
    "[]": [],
    "decimal(9, 2)": DecimalType(9, 2),
    "2026-01-31": dt.date(2026, 1, 31),
}


@pytest.mark.parametrize("expected", CASES)
def test_id_describes_the_value(expected: str) -> None:
    assert readable_id(CASES[expected]) == expected


def test_id_is_short_and_on_one_line() -> None:
    text = readable_id(["x\ny" * 100]) or ""
    assert len(text) == MOST_CHARACTERS
    assert text.startswith("x yx")


@pytest.mark.parametrize("value", [1, "text", None, object()], ids=["number", "text", "None", "object"])
def test_value_that_pytest_can_show_has_no_separate_id(value: object) -> None:
    assert readable_id(value) is None
