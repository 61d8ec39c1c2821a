"""Bad input at the command line: a specific error with a remedy and an exit code, and no loss of data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

_SEQUENCE = "{:016x}/{:016x}"


class Shop:
    """A catalog of changelogs, each with three events."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.config = folder / "icemirror.yaml"
        self.options = dict.fromkeys(names, "")
        self.catalog: Catalog = load_catalog("icemirror", **self.catalog_properties)
        self.catalog.create_namespace("shop")
        for name in names:
            self.create(name)
            self.append(name, [1, 2, 3])
        self.write_config()

    @property
    def catalog_properties(self) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": f"file://{self.folder}/warehouse",
        }

    def write_config(self, **catalog: str) -> None:
        properties = {**self.catalog_properties, **catalog}
        lines = [f"    {name}: {json.dumps(value)}" for name, value in properties.items()]
        tables = [
            f"  - {{namespace: shop, changelog_table: {name}_changelog, mirror_table: {name}{options}}}"
            for name, options in self.options.items()
        ]
        job = "job: {spark_from_events: 0}"  # errors are raised in tasks
        self.config.write_text("\n".join(["iceberg:", "  catalog:", *lines, job, "tables:", *tables]))

    def create(self, name: str, key_required: bool = True) -> None:
        self.catalog.create_table(
            f"shop.{name}_changelog",
            Schema(
                NestedField(1, "id", LongType(), required=key_required),
                NestedField(2, "name", StringType(), required=False),
                NestedField(3, "cdc_operation", StringType(), required=True),
                NestedField(4, "sequence_number", StringType(), required=True),
                identifier_field_ids=[1] if key_required else [],
            ),
        )

    def append(self, name: str, ids: Sequence[int | None], operation: str = "INSERT") -> None:
        table = self.catalog.load_table(f"shop.{name}_changelog")
        rows = {
            "id": ids,
            "name": ["x"] * len(ids),
            "cdc_operation": [operation] * len(ids),
            "sequence_number": [_SEQUENCE.format(7, ordinal) for ordinal in range(len(ids))],
        }
        table.append(pa.table(rows, schema=table.schema().as_arrow()))

    def merge(self) -> tuple[int, dict[str, Any], str]:
        """Merge and return the exit code, the results by table, and stderr."""
        command = [sys.executable, "-m", "icemirror", "merge", "--json", "-c", str(self.config)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        results = [json.loads(line) for line in run.stdout.splitlines()]
        return run.returncode, {result["table"]: result for result in results}, run.stderr

    def data_file(self, name: str) -> Path:
        (task,) = self.catalog.load_table(f"shop.{name}_changelog").scan().plan_files()
        return Path(task.file.file_path.removeprefix("file://"))


def _drop_changelog(shop: Shop, name: str) -> None:
    shop.catalog.drop_table(f"shop.{name}_changelog")


def _missing_key_column(shop: Shop, name: str) -> None:
    shop.options[name] = ", primary_keys: [idd]"


def _unknown_operation(shop: Shop, name: str) -> None:
    shop.append(name, [4], operation="UPSERT")


def _null_key(shop: Shop, name: str) -> None:
    shop.catalog.drop_table(f"shop.{name}_changelog")
    shop.create(name, key_required=False)
    shop.append(name, [1, None])
    shop.options[name] = ", primary_keys: [id]"


def _truncated_file(shop: Shop, name: str) -> None:
    file = shop.data_file(name)
    file.write_bytes(file.read_bytes()[:100])


def _missing_file(shop: Shop, name: str) -> None:
    shop.data_file(name).unlink()


def _no_folder_to_write(shop: Shop, name: str) -> None:
    (shop.folder / "warehouse" / "shop" / name).write_text("a file where a folder must be")


# name → function that damages the table, possible kinds of the error, required parts of the message
BAD: dict[str, tuple[Callable[[Shop, str], None], set[str], list[str]]] = {
    "dropped": (_drop_changelog, {"invalid"}, ["shop.dropped_changelog", "there is no changelog"]),
    "keyless": (_missing_key_column, {"invalid"}, ["idd", "did you mean id?"]),
    "upsert": (_unknown_operation, {"invalid"}, ["UPSERT", "operation_values"]),
    "null_key": (_null_key, {"invalid"}, ["key is NULL", "row 1"]),
    "truncated": (_truncated_file, {"corrupt"}, [".parquet"]),
    "missing": (_missing_file, {"corrupt"}, [".parquet", "missing"]),
    "unwritable": (_no_folder_to_write, {"invalid", "transient"}, ["warehouse/shop/unwritable"]),
}


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shop, int, dict[str, Any]]:
    """Run one merge over all bad tables, with a good table before and after them."""
    shop = Shop(tmp_path_factory.mktemp("shop"), ["first", *BAD, "last"])
    for name, (damage, _, _) in BAD.items():
        damage(shop, name)
    shop.write_config()
    code, results, _ = shop.merge()
    return shop, code, results


@pytest.mark.parametrize("name", BAD)
def test_bad_table_gives_a_specific_error_and_no_commit(
    merged: tuple[Shop, int, dict[str, Any]], name: str
) -> None:
    shop, _, results = merged
    _, kinds, parts = BAD[name]
    error = results[f"shop.{name}"]["error"]
    assert error["kind"] in kinds
    assert all(part in error["message"] for part in parts), error["message"]
    if shop.catalog.table_exists(f"shop.{name}"):
        assert shop.catalog.load_table(f"shop.{name}").current_snapshot() is None


def test_other_tables_are_merged_and_the_exit_code_reports_blocked_tables(
    merged: tuple[Shop, int, dict[str, Any]],
) -> None:
    _, code, results = merged
    assert code == 3
    for name in ("first", "last"):
        assert results[f"shop.{name}"]["outcome"] == "merged"
        assert results[f"shop.{name}"]["live_rows"] == 3


def test_unreachable_catalog_is_transient(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ["t"])
    shop.write_config(type="rest", uri="http://127.0.0.1:9")
    code, results, _ = shop.merge()
    assert code == 4
    assert results["shop.t"]["error"]["kind"] == "transient"


def test_unset_secret_error_names_variable_and_file(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ["t"])
    shop.write_config(token="${ICEMIRROR_TEST_UNSET}")  # noqa: S106 (a reference)
    code, results, stderr = shop.merge()
    assert code == 2
    assert not results
    assert "ICEMIRROR_TEST_UNSET" in stderr
    assert "icemirror.yaml:" in stderr


def test_malformed_yaml_error_names_the_file(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ["t"])
    shop.config.write_text("iceberg: {catalog: [\n")
    code, _, stderr = shop.merge()
    assert code == 2
    assert "icemirror.yaml:" in stderr
