from __future__ import annotations

from icemirror.cli.demo.oracle.verifier import compare_rows

_COLUMNS = ["id", "name"]


def _row(key: int, name: str) -> tuple[bytes, bytes]:
    cell = f"{len(str(key))}:{key}".encode()
    return cell, cell + f"{len(name)}:{name}".encode()


def test_rows_are_compared_in_any_order() -> None:
    rows = [_row(1, "a"), _row(2, "b")]
    verdict = compare_rows(dict(rows), reversed(rows), _COLUMNS)
    assert verdict.equal
    assert str(verdict) == "equal: 2 rows"


def test_every_kind_of_difference_is_counted_and_shown() -> None:
    expected = dict([_row(1, "a"), _row(2, "b"), _row(3, "c")])
    verdict = compare_rows(expected, [_row(1, "a"), _row(1, "a"), _row(2, "x"), _row(4, "d")], _COLUMNS)
    assert (verdict.missing, verdict.extra, verdict.different) == (1, 2, 1)
    assert not verdict.equal
    assert verdict.examples == (
        "different (2) in name",
        "missing (3)",
        "extra (1), a second row of its key",
        "extra (4)",
    )


def test_second_row_of_a_key_is_extra_even_if_the_first_is_wrong() -> None:
    verdict = compare_rows(dict([_row(1, "a")]), [_row(1, "x"), _row(1, "a")], _COLUMNS)
    assert (verdict.missing, verdict.extra, verdict.different) == (0, 1, 0)


def test_number_of_examples_is_limited() -> None:
    verdict = compare_rows(dict(_row(key, "a") for key in range(100)), [], _COLUMNS)
    assert verdict.missing == 100
    assert len(verdict.examples) == 5
