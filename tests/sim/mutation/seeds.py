"""Seeds that detected bugs of the product, since fixed, and planted defects."""

from __future__ import annotations

REGRESSIONS: tuple[int, ...] = (
    1588446419,  # the manifest list of another snapshot: rows were located in files that it does not have
)

# A seed that detects each planted defect.
FOUND_BY: dict[str, int] = {
    "deletion vector not compared with its checksum": 3,
    "rows of a file not counted": 5,
    "truncated manifest accepted as a shorter one": 7,
    "directory of a segment not compared with its checksum": 109,
    "root not compared with its checksum": 21701,
    "reads beyond the end of a file not checked": 64,
    "blocks of the index not compared with their checksums": 483,
    "pages not compared with their checksums": 292,
}
