"""Every part of the benchmark runs end to end, on tiny tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from click.testing import CliRunner
from rich.console import Console

from benchmarks.__main__ import main
from benchmarks.aims import judge_aims
from benchmarks.bench import Bench, Limits
from benchmarks.fingerprint import Fingerprint, fingerprint
from benchmarks.machine import describe_machine
from benchmarks.parts.catalogue import PARTS
from benchmarks.parts.merges import Different, require_equal
from benchmarks.parts.scale import TOY
from benchmarks.process import SystemFailed
from benchmarks.progress import Progress
from benchmarks.publish import BEGIN, END, publish, replace_block
from benchmarks.result import Absent, Cell, Conditions, Fleet, Latency, Merges, Run
from benchmarks.runner import choose_cells, run_cells
from benchmarks.store import Store
from benchmarks.summary import percentile
from benchmarks.systems.catalogue import ICEBERG_RUNTIME, OURS, PEER
from tests.provision import maven
from tests.provision.cache import Unavailable

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run with icemirror in every part, and the peer in one, if its jar is available."""
    cells = choose_cells((), (OURS,))
    try:
        maven.jar(ICEBERG_RUNTIME)
        cells.append(("large", PEER))
    except Unavailable:
        pass
    folder = tmp_path_factory.mktemp("benchmark")
    store = Store(folder / "results")
    limits = Limits(cores=2, driver_memory="1g", timeout_seconds=300)
    with (
        Progress(Console(stderr=True), len(cells)) as progress,
        Bench(limits, folder / "scratch", progress, keep=True) as bench,
    ):
        run_cells(cells, TOY, bench, store)
    assert not list((folder / "scratch").iterdir())
    return store.read(cells)


def test_every_part_measures_icemirror(measured: Run) -> None:
    ours = {cell.part: cell.outcome for cell in measured.cells if cell.system == OURS}
    assert list(ours) == list(PARTS)
    assert [part for part, outcome in ours.items() if isinstance(outcome, Absent)] == []
    for outcome in ours.values():
        for work in outcome.workloads if isinstance(outcome, Merges) else ():
            assert len(work.batches) == len(work.events)
            assert all(batch.steps["slices"] == 1 and batch.steps["commit"] > 0 for batch in work.batches)
            assert work.inspection.index_bytes > 0


def test_every_commit_becomes_visible_in_its_mirror(measured: Run) -> None:
    """The parts themselves check the rows."""
    latency, fleet = measured.outcome("latency", OURS), measured.outcome("fleet", OURS)
    assert isinstance(latency, Latency)
    for run in latency.runs:
        assert len(run.commits) == TOY.latency_commits
        assert all(0 < commit.noticed <= commit.taken <= commit.visible for commit in run.commits)
    assert isinstance(fleet, Fleet)
    assert len(fleet.busy) > len(fleet.quiet) >= len(fleet.burst) - 1 == TOY.fleet_tables - 1
    assert fleet.starved == 0
    assert fleet.most_jobs == fleet.allowed_jobs
    assert fleet.launches == fleet.bursts
    assert fleet.sparks in (None, 1)  # the first job starts Spark for the largest initial copy
    assert fleet.most_sparks == fleet.sparks


def test_percentile_is_the_smallest_value_that_the_share_does_not_exceed() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (0, 50, 95, 100)] == [1.0, 50.0, 95.0, 100.0]
    assert percentile([3.0], 95) == 3.0


def test_peer_has_the_same_rows(measured: Run, maven_jar: Callable[[str], Path]) -> None:
    maven_jar(ICEBERG_RUNTIME)
    systems = measured.workloads("large")["large"]
    assert systems[PEER].inspection.fingerprint == systems[OURS].inspection.fingerprint
    assert systems[PEER].inspection.delete_bytes > 0
    (aim,) = [aim for aim in judge_aims(measured) if "Iceberg MERGE" in aim.text]
    assert aim.measured > 0


def test_measured_figures_are_published(measured: Run, tmp_path: Path) -> None:
    written = publish(measured, tmp_path)
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")
    for title in (
        "Aims",
        "Index lookups",
        "Storage",
        "Memory",
        "Merge after merge",
        "From commit to row",
        "Many tables, one of them busy",
        "Where icemirror's time goes",
    ):
        assert f"### {title}" in page
    charts = {path.name for path in written if path.suffix == ".svg"}
    assert charts == {"batches.svg", "table-size.svg", "change-size.svg", "repeated.svg"}
    assert all(f"](img/{name})" in page for name in charts)
    assert Run.model_validate_json((tmp_path / "performance.json").read_text(encoding="utf-8")) == measured


def test_figures_that_were_not_measured_again_stay_published(tmp_path: Path) -> None:
    published, store = tmp_path / "docs", Store(tmp_path / "results")
    publish(Run(cells=(cell_of("lookup", OURS), cell_of("large", PEER))), published)
    newer = cell_of("large", PEER).model_copy(update={"seconds": 7.0})
    for cell in (newer, cell_of("fleet", OURS)):
        store.save(cell)
    command = ["write", "--results", str(tmp_path / "results"), "--out", str(published)]

    def figures() -> tuple[Cell, ...]:
        return Run.model_validate_json((published / "performance.json").read_text(encoding="utf-8")).cells

    assert CliRunner().invoke(main, [*command, "--keep"]).exit_code == 0
    assert figures() == (cell_of("lookup", OURS), cell_of("fleet", OURS), newer)
    assert CliRunner().invoke(main, command).exit_code == 0
    assert figures() == (cell_of("fleet", OURS), newer)


def test_interrupted_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, missing = Store(tmp_path), ("storage", OURS)
    for key in choose_cells((), ()):
        store.save(cell_of(*key))
    store.delete(missing)
    requested: list[tuple[str, str]] = []

    def record_cells(cells: list[tuple[str, str]], *_: object) -> list[object]:
        requested[:] = cells
        return []

    monkeypatch.setattr("benchmarks.__main__.run_cells", record_cells)
    command = ["run", "--toy", "--results", str(tmp_path)]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert requested == [missing]
    store.save(cell_of(*missing))
    assert CliRunner().invoke(main, command).exit_code == 0
    assert requested == choose_cells((), ())
    assert CliRunner().invoke(main, [*command, "lookup"]).exit_code == 0
    assert requested == [("lookup", OURS)]


@pytest.mark.parametrize(
    ("error", "code"),
    [(SystemFailed("ended\nits log"), 0), (Unavailable("no jar"), 0), (Different("other rows"), 1)],
)
def test_failed_system_is_reported_and_wrong_rows_fail_the_run(
    error: Exception, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise error

    for part in ("large", "memory"):
        monkeypatch.setitem(PARTS, part, replace(PARTS[part], measure=fail))
    command = ["run", "large", "memory", "--system", OURS, "--toy", "--results", str(tmp_path)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == code
    reason = str(error).splitlines()[0]
    assert f"Left out: large, icemirror: {reason}" in done.stdout
    assert f"Left out: memory, icemirror: {reason}" in done.stdout


def cell_of(part: str, system: str) -> Cell:
    conditions = Conditions(spark_cores=2, driver_memory="1g", load=0, busy_cores=None, crowded=False)
    return Cell(
        part=part,
        system=system,
        began_at="2026-01-01T00:00+00:00",
        seconds=0,
        machine=describe_machine({}),
        conditions=conditions,
        outcome=Absent(reason="not requested"),
    )


def rows_of(**values: object) -> pa.Table:
    columns = {"id": [1, 2, 3], "name": ["a", "", "bc"], "balance": [0.5, -1.0, 2.0], **values}
    return pa.table(columns)


def digest(table: pa.Table) -> Fingerprint:
    return fingerprint(table.to_batches(), table.schema)


@pytest.mark.parametrize("names", [["a", "", "bc"], ["ab", "cd", "ef"], ["", "", ""], ["ab", "cd", "longer"]])
def test_fingerprint_does_not_depend_on_row_order_or_batch_size(names: list[str]) -> None:
    table = rows_of(name=names)
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
def test_different_value_gives_a_different_fingerprint_and_fails_the_check(
    values: dict[str, list[object]],
) -> None:
    with pytest.raises(Different, match="not those that the changes lead to"):
        require_equal("a system", digest(rows_of(**values)), digest(rows_of()))


def test_text_around_the_generated_block_is_kept() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replace_block(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(ValueError, match="lacks one of the markers"):
        replace_block("no markers", "new")


def test_performance_page_has_the_markers() -> None:
    page = (ROOT / "docs" / "explanation" / "performance.md").read_text(encoding="utf-8")
    assert replace_block(page, "new").count("new") >= 1
