"""`python -m benchmarks` runs end to end on tables so small that its figures mean nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.fingerprint import Fingerprint, fingerprint
from benchmarks.measure import Different, require_equal
from benchmarks.publish import BEGIN, END, replace_block
from benchmarks.result import Run
from benchmarks.systems.catalogue import ICEBERG_RUNTIME

ROOT = Path(__file__).resolve().parents[2]


def bench(tmp_path: Path, *options: str) -> tuple[Run, str]:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", str(figures), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return Run.model_validate_json(figures.read_text()), done.stdout


def test_the_benchmark_measures_icemirror_and_publishes_what_it_found(tmp_path: Path) -> None:
    run, printed = bench(
        tmp_path, "--only", "icemirror", "--only", "small", "--only", "small-tenth", "--out", str(tmp_path)
    )
    assert [work.name for work in run.workloads] == ["small-tenth", "small"]
    for work in run.workloads:
        ours = work.systems["icemirror"]
        assert len(ours.batches) == 2
        assert all(batch.steps["slices"] == 1 and batch.steps["commit"] > 0 for batch in ours.batches)
        assert ours.inspection.fingerprint.rows > work.rows
        assert ours.inspection.index_bytes > 0
    page = (tmp_path / "performance.md").read_text()
    assert "Where icemirror's time goes" in printed
    assert printed.strip() in page
    assert all(
        (tmp_path / "img" / name).read_text().startswith("<svg") for name in ("batches.svg", "rounds.svg")
    )


def test_the_benchmark_measures_the_peer_on_the_same_rows(
    tmp_path: Path, maven_jar: Callable[[str], Path]
) -> None:
    maven_jar(ICEBERG_RUNTIME)
    run, _ = bench(tmp_path, "--only", "iceberg-merge", "--only", "small", "--rounds", "1")
    (work,) = run.workloads
    peer = work.systems["iceberg-merge"]
    assert peer.inspection.fingerprint.rows > work.rows
    assert peer.inspection.delete_bytes > 0


def rows_of(**values: object) -> pa.Table:
    columns = {"id": [1, 2, 3], "name": ["a", "", "bc"], "balance": [0.5, -1.0, 2.0], **values}
    return pa.table(columns)


def digest(table: pa.Table) -> Fingerprint:
    return fingerprint(table.to_batches(), table.schema)


def test_the_order_of_rows_and_the_size_of_batches_do_not_matter() -> None:
    table = rows_of()
    shuffled = table.take(pa.array([2, 0, 1]))
    assert digest(shuffled) == digest(table)
    assert fingerprint(table.to_batches(max_chunksize=1), table.schema) == digest(table)


@pytest.mark.parametrize(
    "values",
    [
        {"name": ["a", "", "cb"]},
        {"name": ["", "a", "bc"]},
        {"balance": [0.5, -1.0, 2.5]},
        {"balance": [-1.0, 0.5, 2.0]},
        {"id": [1, 3, 2]},
    ],
)
def test_any_other_value_gives_another_fingerprint_and_fails_the_run(values: dict[str, list[object]]) -> None:
    with pytest.raises(Different, match="not those that the changes lead to"):
        require_equal("a system", digest(rows_of(**values)), digest(rows_of()))


def test_what_people_wrote_around_the_figures_stays() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replace_block(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(ValueError, match="lacks one of the markers"):
        replace_block("no markers", "new")


def test_the_page_has_its_markers() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert replace_block(page, "new").count("new") >= 1
