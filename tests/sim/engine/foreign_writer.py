"""Foreign writes to the mirror: appends, deletes of both kinds, updates, compactions."""

from __future__ import annotations

import random
import struct
import uuid
import zlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyroaring import BitMap64

from spark_job.index.puffin import Blob, write_puffin
from spark_job.pyiceberg_private.v3_fields import content_span, delete_key, referenced_data_file
from tests.sim.engine import snapshots
from tests.sim.engine.journal import Row, row_of
from tests.sim.engine.reader import FLAG, Contents, RowLocation
from tests.sim.engine.setting import Key, Setting, arrow_schema

Values = tuple[Key, int, str | None, float | None, bool | None]
_ROW_POSITION = 2147483645
_DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


class ForeignWriter:
    """Another engine that writes on one head of the mirror."""

    def __init__(self, table: Table, contents: Contents, setting: Setting, dice: random.Random) -> None:
        self.table, self.contents, self.setting, self.dice = table, contents, setting, dice
        self.rows = contents.by_key()
        self._data: list[DataFile] = []
        self._removed: set[tuple[str, int | None]] = set()
        self._deleted: dict[str, set[int]] = {}

    def write(self) -> str:
        """Prepare a random write and return its description; `rows` are the mirror's rows after it."""
        live = [key for key in self.setting.pool if key in self.rows]
        absent = [key for key in self.setting.pool if key not in self.rows]
        actions = [self._compact]
        if live:
            actions += [self._delete, self._update, self._delete]
        if absent:
            actions += [self._insert, self._insert]
        action = self.dice.choice(actions)
        return action(live, absent)

    def commit(self, snapshot_id: int) -> None:
        """Commit a snapshot."""
        deletes = self._write_deletes()
        kind = "overwrite" if self._removed or deletes else "append"
        snapshots.commit(self.table, kind, self._data, deletes, self._removed, first_id=snapshot_id)

    def _insert(self, live: list[Key], absent: list[Key]) -> str:
        keys = self._some(absent)
        self._add([self._values(key) for key in keys])
        return f"another writer inserts {keys}"

    def _delete(self, live: list[Key], absent: list[Key]) -> str:
        keys = self._some(live)
        how = self._remove(set(keys))
        for key in keys:
            del self.rows[key]
        return f"another writer deletes {keys} ({how})"

    def _update(self, live: list[Key], absent: list[Key]) -> str:
        keys = self._some(live)
        how = self._remove(set(keys))
        self._add([self._values(key) for key in keys])
        return f"another writer updates {keys} ({how})"

    def _compact(self, live: list[Key], absent: list[Key]) -> str:
        files = sorted(self.contents.data)
        chosen = set(files if self.dice.random() < 0.5 else self.dice.sample(files, len(files) // 2))
        self._rewrite(chosen, set())
        return f"another writer compacts {len(chosen)} of {len(files)} files"

    def _some(self, keys: list[Key]) -> list[Key]:
        return self.dice.sample(keys, self.dice.randint(1, min(3, len(keys))))

    def _values(self, key: Key) -> Values:
        number = -self.dice.randint(1, 1 << 40)
        category, decimal = self.dice.choice(("p", "q", None)), self.dice.choice((1.5, None))
        flag = self.dice.choice((None, False, True)) if self._has_flag else None
        values = (key, number, category, decimal, flag)
        self.rows[key] = row_of(*values[1:])
        return values

    def _remove(self, keys: set[Key]) -> str:
        locations = [location for location, (key, _) in self.contents.rows.items() if key in keys]
        if self.dice.random() < 0.35:
            self._rewrite({path for path, _ in locations}, keys)
            return "copy-on-write"
        for path, at in locations:
            self._deleted.setdefault(path, set()).add(at)
        return "merge-on-read"

    def _rewrite(self, paths: set[str], without: set[Key]) -> None:
        """Rewrite the live rows of these files, without some keys."""
        kept = [
            (key, row)
            for (path, _), (key, row) in self.contents.rows.items()
            if path in paths and key not in without
        ]
        self.dice.shuffle(kept)
        self._removed |= {(path, None) for path in paths}
        for file in self.contents.deletes:
            targets = self._targets(file)
            if targets and targets <= paths:
                self._removed.add(delete_key(file))
        self._add([(key, row[0], row[1], _number(row), row[3]) for key, row in kept])

    @property
    def _has_flag(self) -> bool:
        return FLAG in self.table.metadata.schema().column_names

    def _targets(self, file: DataFile) -> set[str]:
        target = referenced_data_file(file)
        if target is not None:
            return {target}
        table = pq.ParquetFile(pa.BufferReader(self.table.io.read(file.file_path))).read()  # type: ignore[attr-defined]
        return set(table["file_path"].to_pylist())

    def _add(self, rows: Sequence[Values]) -> None:
        spec, schema = self.table.metadata.spec(), self.table.metadata.schema()
        groups: dict[tuple[object, ...], list[Values]] = {}
        for row in rows:
            values = dict(zip((*self.setting.key_names, *"vcx"), (*row[0], *row[1:4]), strict=True))
            partition = tuple(
                field.transform.transform(schema.find_type(field.source_id))(
                    values[schema.find_column_name(field.source_id) or ""]
                )
                for field in spec.fields
            )
            groups.setdefault(partition, []).append(row)
        for partition, group in groups.items():
            self._data.append(snapshots.write_parquet(self.table, self._arrow(group), Record(*partition)))

    def _arrow(self, rows: Sequence[Values]) -> pa.Table:
        schema = arrow_schema(self.setting, self.table.metadata.schema(), mirror=True)
        columns: dict[str, list[object]] = {
            name: [row[0][at] for row in rows] for at, name in enumerate(self.setting.key_names)
        }
        columns |= {name: [row[1 + at] for row in rows] for at, name in enumerate((*"vcx", FLAG))}
        return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)

    def _write_deletes(self) -> list[DataFile]:
        deleted = {
            path: positions for path, positions in self._deleted.items() if (path, None) not in self._removed
        }
        if self.table.metadata.format_version >= 3:
            return [self._write_vector(path, positions) for path, positions in deleted.items()]
        if len(deleted) > 1 and self.dice.random() < 0.5 and not self.table.metadata.spec().fields:
            return [self._write_positions(deleted)]
        return [self._write_positions({path: positions}) for path, positions in deleted.items()]

    def _describe(self, path: str, like: DataFile, count: int, **more: object) -> DataFile:
        file = DataFile.from_args(
            _table_format_version=self.table.metadata.format_version,
            content=DataFileContent.POSITION_DELETES,
            file_path=path,
            partition=like.partition,
            record_count=count,
            file_size_in_bytes=len(self.table.io.new_input(path)),
            **more,
        )
        file.spec_id = like.spec_id
        return file

    def _write_positions(self, deleted: dict[str, set[int]]) -> DataFile:
        locations: list[RowLocation] = sorted(
            (path, at) for path, positions in deleted.items() for at in positions
        )
        path = f"{self.table.metadata.location}/data/{uuid.uuid4()}-deletes.parquet"
        names, positions = zip(*locations, strict=True)
        with self.table.io.new_output(path).create() as stream:
            pq.write_table(pa.table([pa.array(names), pa.array(positions)], schema=_DELETES), stream)
        like = self.contents.data[locations[0][0]]
        return self._describe(path, like, len(locations), file_format=FileFormat.PARQUET)

    def _write_vector(self, path: str, positions: set[int]) -> DataFile:
        positions_after = positions | self.contents.deleted.get(path, set())
        for file in self.contents.deletes:
            if referenced_data_file(file) == path and content_span(file):
                self._removed.add(delete_key(file))
        content = b"\xd1\xd3\x39\x64" + BitMap64(sorted(positions_after)).serialize()
        blob = struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))
        target = f"{self.table.metadata.location}/data/{uuid.uuid4()}-deletes.puffin"
        properties = {"referenced-data-file": path, "cardinality": str(len(positions_after))}
        _, (span,) = write_puffin(
            self.table.io, target, [Blob("deletion-vector-v1", blob, properties, (_ROW_POSITION,))]
        )
        return self._describe(
            target,
            self.contents.data[path],
            len(positions_after),
            file_format=FileFormat.PUFFIN,
            referenced_data_file=path,
            content_offset=span.offset,
            content_size_in_bytes=len(blob),
        )


def _number(row: Row) -> float | None:
    return None if row[2] == "None" else float(row[2])
