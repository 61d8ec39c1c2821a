"""A launcher and a catalog under the control of a test, and settings for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from icemirror.config_file.load import load_settings
from icemirror.errors import IcemirrorError, Invalid, Transient
from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest
from icemirror.settings import Settings
from icemirror.tables.table_id import TableId
from trigger.heads.head_source import HeadResult, missing_changelog


class FakeLauncher:
    """A launcher whose runs get their states from the test."""

    def __init__(self) -> None:
        self.runs: dict[str, RunState] = {}
        self.by_token: dict[str, str] = {}
        self.launches: list[str] = []
        self.cancelled: list[str] = []
        self.fails = False
        self.refuses = ""
        self.silent = False

    def launch(self, request: RunRequest) -> str:
        self.launches.append(request.token)
        if self.fails:
            raise Transient("no capacity")
        if self.refuses:
            raise Invalid(self.refuses)
        run_id = self.by_token.setdefault(request.token, f"run-of-{request.token}")
        self.runs.setdefault(run_id, RunState.RUNNING)
        return run_id

    def find(self, token: str) -> str | None:
        return self.by_token.get(token)

    def poll(self, run_id: str) -> RunState:
        if self.silent:
            raise Transient("the platform does not answer")
        return self.runs.get(run_id, RunState.ENDED)

    def log_location(self, run_id: str) -> str:
        return f"/logs/{run_id}.log" if run_id in self.runs else ""

    def cancel(self, run_id: str) -> None:
        self.cancelled.append(run_id)
        if self.silent:
            raise Transient("the platform does not answer")


class FakeHeads:
    """A catalog: heads by dotted name, or an error for all of them."""

    def __init__(self, heads: Mapping[str, str] | None = None) -> None:
        self.heads = dict(heads or {})
        self.error: Exception | None = None
        self.before: Callable[[], object] = lambda: None
        self.before_list: Callable[[], object] = lambda: None
        self.closed = False

    def load_heads(self, tables: Sequence[TableId]) -> dict[TableId, HeadResult]:
        self.before()
        if self.error:
            raise self.error
        return {
            table: self.heads.get(str(table)) or missing_changelog(table, "the catalog") for table in tables
        }

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        self.before_list()
        if self.error:
            raise self.error
        found = (name.rpartition(".") for name in self.heads)
        return tuple(sorted(table for levels, _, table in found if levels == namespace))

    def close(self) -> None:
        self.closed = True


TABLES = """
tables:
  - {namespace: shop, changelog_table: orders_changelog, mirror_table: orders, primary_keys: [id]}
  - {changelog: raw.items, mirror: shop.items, primary_keys: [id], changelog_catalog: other, group: heavy}
"""
DISCOVER = """
discover: [{namespace: raw, match: "*_changelog", mirror_namespace: shop}]
"""


def settings(folder: Path, tables: str = TABLES, **trigger: str) -> Settings:
    """Return a configuration with two catalogs."""
    options = {"state": f"{{type: sqlite, path: {folder}/state.db}}", **trigger}
    lines = "\n".join(f"  {key}: {value}" for key, value in options.items())
    catalogs = (
        "catalog: {type: sql, uri: 'sqlite:///a.db'}\n  catalogs: {other: {type: rest, uri: 'http://h'}}"
    )
    path = folder / "icemirror.yaml"
    path.write_text(f"iceberg:\n  {catalogs}\n{tables}\ntrigger:\n{lines}\n")
    return load_settings(path, {})


def as_error(error: object) -> IcemirrorError:
    """Assert that the head is an error, and return it."""
    assert isinstance(error, IcemirrorError)
    return error
