"""How many rows make a row group and a file, by what rows turned out to take in Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from icemirror.mirror_properties import ROW_GROUP_BYTES, ROW_GROUP_ROWS, TARGET_FILE_BYTES
from spark_job.iceberg.write_properties import read_number

# A file may be this much larger than the target, rather than leave a small one behind …
_STRETCH = 1.25
# … and this much smaller, rather than end with a small row group.
_NEARLY = 0.9


@dataclass
class FileSizes:
    """Targets of the table, and the bytes in Parquet for each byte in Arrow; None before any were written."""

    file_bytes: int
    group_bytes: int
    group_rows: int
    ratio: float | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FileSizes:
        """As the table's properties say."""
        return cls(
            read_number(properties, TARGET_FILE_BYTES),
            read_number(properties, ROW_GROUP_BYTES),
            read_number(properties, ROW_GROUP_ROWS),
        )

    def needs_sample(self, rows: pa.Table) -> bool:
        """Whether it matters how well the rows compress, and nothing is known of it yet."""
        return self.ratio is None and rows.nbytes > min(self.file_bytes, self.group_bytes)

    def learn(self, arrow_bytes: int, parquet_bytes: int) -> None:
        """Rows were written."""
        if arrow_bytes:
            self.ratio = parquet_bytes / arrow_bytes

    def next_group(self, rows: pa.Table, file_bytes: int) -> int:
        """How many of the rows go into the next row group of a file; 0 ends the file, which is never empty.

        `file_bytes` are those of its row groups so far.
        """
        if not rows.num_rows:
            return 0
        estimate = rows.nbytes * (1.0 if self.ratio is None else self.ratio)
        each = max(estimate / rows.num_rows, 1e-9)
        room = self.file_bytes - file_bytes
        if file_bytes + estimate > self.file_bytes * _STRETCH:
            if file_bytes and file_bytes > self.file_bytes * _NEARLY:
                return 0
            most = min(room, self.group_bytes)
        else:
            most = self.group_bytes
        return min(int(rows.num_rows), self.group_rows, max(1, int(most / each)))
