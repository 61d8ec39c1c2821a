"""The comparison of two sets of rows, and what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest

from icemirror.cli.demo.oracle.canonical import describe_cells, differing_columns

EXAMPLES = 5


@dataclass(frozen=True)
class Verdict:
    """Equal, or how many rows are not as expected, with a few of them."""

    expected_rows: int
    found_rows: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    examples: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both sides hold the same multiset of rows."""
        return not (self.missing or self.extra or self.different)

    def __str__(self) -> str:
        if self.equal:
            return f"equal: {self.expected_rows:,} rows"
        counts = f"{self.missing:,} missing, {self.extra:,} extra, {self.different:,} different"
        rows = f"{self.expected_rows:,} rows expected, {self.found_rows:,} found"
        return "; ".join([f"{counts} ({rows})", *self.examples])


def compare_rows(
    expected: Mapping[bytes, bytes], found: Iterable[tuple[bytes, bytes]], columns: Sequence[str]
) -> Verdict:
    """Compares key → row with (key, row) pairs. A key's second row is extra, whatever it holds."""
    found_rows = 0
    met: set[bytes] = set()
    unmatched: list[tuple[bytes, bytes]] = []
    for key, row in found:
        found_rows += 1
        if key not in met and expected.get(key) == row:
            met.add(key)
        else:
            unmatched.append((key, row))

    extra: list[bytes] = []
    different: list[tuple[bytes, bytes]] = []
    for key, row in unmatched:
        if key in met or key not in expected:
            extra.append(key)
        else:
            met.add(key)
            different.append((key, row))
    missing = [key for key in expected if key not in met]

    describe_different = (
        f"different {describe_cells(key)} in {', '.join(differing_columns(expected[key], row, columns))}"
        for key, row in different
    )
    describe_missing = (f"missing {describe_cells(key)}" for key in missing)
    describe_extra = (
        f"extra {describe_cells(key)}" + (", a second row of its key" if key in met else "") for key in extra
    )
    in_turn = chain.from_iterable(zip_longest(describe_different, describe_missing, describe_extra))
    return Verdict(
        expected_rows=len(expected),
        found_rows=found_rows,
        missing=len(missing),
        extra=len(extra),
        different=len(different),
        examples=tuple(islice((example for example in in_turn if example), EXAMPLES)),
    )
