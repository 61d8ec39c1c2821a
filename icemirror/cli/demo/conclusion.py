"""The end of the demo: the verification of every mirror, a query, and commands to try next."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from rich.table import Table as RichTable

from icemirror.catalogs.catalog_properties import DEFAULT_CATALOG
from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb, has_iceberg_reader
from icemirror.cli.demo.oracle.journal import Journal
from icemirror.cli.demo.oracle.mirror_readers import (
    MirrorReader,
    read_by_duckdb,
    read_by_pyiceberg,
    read_cursor,
)
from icemirror.cli.demo.oracle.verifier import Comparison, MirrorVerifier
from icemirror.cli.demo.shop import PRODUCTS, SHOP
from icemirror.cli.demo.workspace import NAMESPACE, Workspace

QUERY = """\
SELECT category, count(*) AS products, count(*) FILTER (visible) AS visible, round(avg(price), 2) AS price
FROM iceberg_scan('{location}') GROUP BY category ORDER BY category"""


@dataclass(frozen=True)
class MirrorFinding:
    """One comparison of a mirror with the oracles."""

    table: str
    description: str
    verdict: Comparison


def verify_mirrors(catalog: Catalog, journal: Journal) -> Iterator[MirrorFinding]:
    """Verify each mirror's head with every reader, and one snapshot from the middle of its history."""
    verifier = MirrorVerifier.from_journal(journal)
    readers: dict[str, MirrorReader] = {"PyIceberg": read_by_pyiceberg}
    if has_iceberg_reader():
        readers["DuckDB"] = read_by_duckdb
    for shop_table in SHOP:
        subject = shop_table.subject
        mirror = catalog.load_table((NAMESPACE, subject.name))
        head = journal.position_after(subject, None)
        for reader, verdict in verifier.verify_by_each_reader(subject, mirror, head, readers).items():
            yield MirrorFinding(subject.name, f"read by {reader}", verdict)
        middle = _middle_snapshot_id(mirror)
        if middle is not None:
            yield MirrorFinding(subject.name, "halfway", verifier.verify_mirror(subject, mirror, middle))


def query_products(catalog: Catalog) -> tuple[str, pa.Table]:
    """Return a query of a mirror and its result: by DuckDB if it can read Iceberg, else by PyIceberg."""
    mirror = catalog.load_table((NAMESPACE, PRODUCTS.subject.name))
    if has_iceberg_reader():
        query = QUERY.format(location=mirror.metadata_location)
        with connect_duckdb(iceberg=True) as connection:
            return query, connection.execute(query).to_arrow_table()
    rows = mirror.scan(selected_fields=("category", "stock")).to_arrow()
    grouped = rows.group_by("category").aggregate([("category", "count"), ("stock", "sum")])
    text = 'catalog.load_table("shop.products").scan().to_arrow().group_by("category")…'
    return text, grouped.sort_by("category")


def render_result(result: pa.Table) -> RichTable:
    """Return a query's result as a terminal table."""
    rendered = RichTable(box=None, pad_edge=False, header_style="bold")
    for field in result.schema:
        rendered.add_column(field.name, justify="left" if pa.types.is_string(field.type) else "right")
    for row in result.to_pylist():
        rendered.add_row(*(value if isinstance(value, str) else f"{value:,}" for value in row.values()))
    return rendered


def next_commands(workspace: Workspace) -> list[tuple[str, str]]:
    """Return commands for the demo's data, each with its description."""
    program = Path(sys.argv[0])
    icemirror = str(program) if program.name == "icemirror" else f"{sys.executable} -m icemirror"
    config = shlex.quote(_relative_path(workspace.config))
    folder = shlex.quote(_relative_path(workspace.root))
    return [
        (f"{icemirror} status -c {config}", "state, lag and last run of each table"),
        (f"{icemirror} demo --keep --dir {folder}", "another 30 seconds of changes on the same data"),
        (f"{icemirror} plan -c {config}", "what a merge would do now"),
        (f"{icemirror} watch -c {config}", "keep the mirrors current until you stop it"),
        (f"{sys.executable} -c {shlex.quote(_read_program(workspace))}", "read a mirror with PyIceberg"),
    ]


def _read_program(workspace: Workspace) -> str:
    """Return one line of Python that reads rows of a mirror."""
    # Double quotes, because the shell quotes the line with single ones.
    uri = json.dumps(workspace.catalog_properties["uri"], ensure_ascii=False)
    catalog = f'load_catalog("{DEFAULT_CATALOG}", type="sql", uri={uri})'
    rows = f'{catalog}.load_table("{NAMESPACE}.customers").scan(limit=3).to_arrow()'
    return f"from pyiceberg.catalog import load_catalog; print({rows}.to_pylist())"


def _relative_path(path: Path) -> str:
    """Return the path relative to the working directory, if it is inside."""
    folder = Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _middle_snapshot_id(mirror: Table) -> int | None:
    """Return a snapshot that is neither the first nor the last merge, if there is one."""
    snapshots = sorted(mirror.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
    ids = [
        snapshot.snapshot_id
        for snapshot in snapshots
        if read_cursor(mirror, snapshot.snapshot_id) is not None
    ][1:-1]
    return ids[len(ids) // 2] if ids else None
