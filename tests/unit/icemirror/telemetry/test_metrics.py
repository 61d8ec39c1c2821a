"""Metric names, their Prometheus form, and the effect of a job's result."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from icemirror.errors import Kind
from icemirror.result import ErrorResult, SliceResult, TableResult
from icemirror.telemetry import metric_names
from icemirror.telemetry.metric_names import Instrument, Unit
from icemirror.telemetry.metrics import Metrics, NoMetrics, open_metrics
from icemirror.telemetry.otel import resident_bytes
from icemirror.telemetry.result_metrics import count_result, set_table_gauges

# The names of the contract, repeated here on purpose.
CONTRACT_NAMES = [
    "merger_cycle_completed",
    "merger_cycle_duration_seconds",
    "merger_table_success",
    "merger_table_failure",
    "merger_table_duration_seconds",
    "merger_rows_scanned",
    "merger_rows_deduplicated",
    "merger_rows_rejected",
    "merger_merge_duration_seconds",
    "merger_lag_seconds",
    "merger_lag_snapshots",
    "merger_index_bytes",
    "merger_changelog_files",
    "merger_files_created",
    "merger_commits",
    "merger_commit_duration_seconds",
    "merger_file_size_bytes",
    "merger_slice_events",
    "merger_resident_bytes",
    "trigger_notices",
    "trigger_coalesced",
    "trigger_launches",
    "trigger_quarantined",
    "trigger_dead_letters",
    "trigger_refused",
]

SLICE = SliceResult(
    snapshot_id=1,
    changelog_files=3,
    events=2000,
    inserted=1000,
    updated=500,
    deleted=400,
    stale=50,
    unchanged=50,
    rejected=4,
    data_files=1,
    delete_files=4,
    data_bytes=100_000,
    delete_bytes=4_000,
    index_bytes=9,
    seconds=0.7,
    seconds_by_step={"plan": 0.1, "commit": 0.2},
)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    opened = open_metrics(project_ref="shop", environment="dev")
    yield opened
    opened.close()


def read(metrics: Metrics) -> Samples:
    text = metrics.exposition()
    assert text is not None
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_names_match_the_contract() -> None:
    assert sorted(metric.name for metric in metric_names.ALL) == sorted(CONTRACT_NAMES)


def test_instrument_and_unit_match_the_name() -> None:
    for metric in metric_names.ALL:
        if metric.name.endswith("_duration_seconds") or metric.name == "merger_file_size_bytes":
            assert metric.instrument is Instrument.HISTOGRAM, metric
        assert metric.name.endswith("_seconds") == (metric.unit is Unit.SECONDS), metric
        assert metric.name.endswith("_bytes") == (metric.unit is Unit.BYTES), metric
        assert metric.description
        assert set(metric.labels) <= {"table", "outcome", "reason"}


def test_prometheus_shows_each_metric_with_its_labels(metrics: Metrics) -> None:
    for metric in metric_names.ALL:
        labels = dict.fromkeys(metric.labels, "x")
        match metric.instrument:
            case Instrument.COUNTER:
                metrics.count(metric, 3, **labels)
            case Instrument.HISTOGRAM:
                metrics.observe(metric, 3, **labels)
            case Instrument.GAUGE if metric is not metric_names.RESIDENT_BYTES:
                metrics.gauge(metric, 3, **labels)
    samples = read(metrics)
    for metric in metric_names.ALL:
        shown = tuple(sorted((label, "x") for label in metric.labels))
        suffix = "_count" if metric.instrument is Instrument.HISTOGRAM else ""
        assert (metric.exposed_name + suffix, shown) in samples, metric
        assert metric.exposed_name.endswith("_total") == (metric.instrument is Instrument.COUNTER)
    assert ("target_info", (("environment", "dev"), ("project_ref", "shop"))) in {
        (name, tuple(pair for pair in labels if pair[0] in ("environment", "project_ref")))
        for name, labels in samples
    }


def test_buckets_separate_fast_from_slow_merges_and_small_from_large_files(metrics: Metrics) -> None:
    for seconds in (0.2, 40):
        metrics.observe(metric_names.MERGE_DURATION, seconds, table="t")
    for size in (10_000, 500 * 1024**2):
        metrics.observe(metric_names.FILE_SIZE, size, table="t")
    samples = read(metrics)
    assert samples["merger_merge_duration_seconds_bucket", (("le", "1"), ("table", "t"))] == 1
    assert samples["merger_file_size_bytes_bucket", (("le", "1048576"), ("table", "t"))] == 1


def test_two_metrics_objects_in_one_process_are_separate(metrics: Metrics) -> None:
    other = open_metrics(project_ref="other", environment="dev")
    other.count(metric_names.LAUNCHES)
    assert ("trigger_launches_total", ()) not in read(metrics)
    other.close()


@pytest.mark.parametrize("make", [NoMetrics, lambda: open_metrics(project_ref="p", environment="e")])
def test_misuse_is_refused_with_and_without_opentelemetry(make: type[NoMetrics]) -> None:
    metrics = make()
    with pytest.raises(ValueError, match="is a counter"):
        metrics.gauge(metric_names.LAUNCHES, 1)
    with pytest.raises(ValueError, match="is a histogram"):
        metrics.count(metric_names.SLICE_EVENTS, 1, table="t")
    with pytest.raises(ValueError, match="is a gauge"):
        metrics.observe(metric_names.LAG_SECONDS, 1, table="t")
    with pytest.raises(ValueError, match="labels"):
        metrics.count(metric_names.TABLE_SUCCESS)
    with pytest.raises(ValueError, match="labels"):
        metrics.count(metric_names.TABLE_SUCCESS, table="t", key="values are no labels")
    with pytest.raises(ValueError, match="cannot decrease"):
        metrics.count(metric_names.TABLE_SUCCESS, -1, table="t")
    metrics.close()


def test_result_sets_the_merge_metrics(metrics: Metrics) -> None:
    result = TableResult(table="shop.orders", outcome="merged", slices=(SLICE, SLICE), seconds=1.9)
    count_result(metrics, result)
    samples = read(metrics)
    table = (("table", "shop.orders"),)
    assert {name: samples[name, table] for name, labels in samples if labels == table} == {
        "merger_table_success_total": 1,
        "merger_table_duration_seconds_count": 1,
        "merger_table_duration_seconds_sum": 1.9,
        "merger_changelog_files_total": 6,
        "merger_rows_scanned_total": 4000,
        "merger_rows_deduplicated_total": 3800,
        "merger_rows_rejected_total": 8,
        "merger_files_created_total": 10,
        "merger_slice_events_count": 2,
        "merger_slice_events_sum": 4000,
        "merger_merge_duration_seconds_count": 2,
        "merger_merge_duration_seconds_sum": 1.4,
        "merger_commit_duration_seconds_count": 2,
        "merger_commit_duration_seconds_sum": 0.4,
        "merger_file_size_bytes_count": 10,
        "merger_file_size_bytes_sum": 208_000,
    }
    assert samples["merger_commits_total", (("outcome", "committed"), *table)] == 2
    assert samples["merger_cycle_completed_total", ()] == 1
    assert samples["merger_cycle_duration_seconds_sum", ()] == 1.9


@pytest.mark.parametrize(
    ("kind", "commits"), [(Kind.CONFLICT, 1), (Kind.COMMIT_UNKNOWN, 1), (Kind.INVALID, None)]
)
def test_failure_is_counted_with_the_outcome_of_its_commit(
    metrics: Metrics, kind: Kind, commits: int | None
) -> None:
    error = ErrorResult(kind=kind, message="no")
    count_result(metrics, TableResult(table="t", outcome="failed", seconds=1, error=error))
    samples = read(metrics)
    assert samples["merger_table_failure_total", (("table", "t"),)] == 1
    assert ("merger_table_success_total", (("table", "t"),)) not in samples
    assert samples.get(("merger_commits_total", (("outcome", kind.value), ("table", "t")))) == commits


def test_up_to_date_is_a_success_without_commits(metrics: Metrics) -> None:
    count_result(metrics, TableResult(table="t", outcome="up-to-date", seconds=0.1))
    samples = read(metrics)
    assert samples["merger_table_success_total", (("table", "t"),)] == 1
    assert not any(name == "merger_commits_total" for name, _ in samples)


def test_unknown_values_leave_gauges_unchanged(metrics: Metrics) -> None:
    set_table_gauges(metrics, "t", lag_seconds=12.5, lag_snapshots=3, index_bytes=7)
    set_table_gauges(metrics, "t", lag_seconds=0)
    samples = read(metrics)
    assert samples["merger_lag_seconds", (("table", "t"),)] == 0
    assert samples["merger_lag_snapshots", (("table", "t"),)] == 3
    assert samples["merger_index_bytes", (("table", "t"),)] == 7


def test_resident_memory_is_plausible(metrics: Metrics) -> None:
    resident = resident_bytes()
    assert resident is not None
    assert 5 * 1024**2 < resident < 64 * 1024**3
    assert read(metrics)["merger_resident_bytes", ()] > 5 * 1024**2


def test_counts_of_several_threads_add_up(metrics: Metrics) -> None:
    def work() -> None:
        for _ in range(500):
            metrics.count(metric_names.NOTICES, table="t")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(metrics)["trigger_notices_total", (("table", "t"),)] == 2000


def test_metrics_are_disabled_without_an_exporter() -> None:
    assert isinstance(open_metrics(project_ref="p", environment="e", prometheus=False), NoMetrics)


def test_documentation_lists_exactly_these_metrics() -> None:
    text = (Path(__file__).parents[4] / "docs" / "reference" / "telemetry.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| `((?:merger|trigger)_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$", text, re.MULTILINE
    )
    expected = [
        (
            metric.exposed_name,
            metric.instrument.value,
            ", ".join(f"`{name}`" for name in metric.labels),
            metric.description,
        )
        for metric in metric_names.ALL
    ]
    assert [tuple(cell.strip() for cell in row) for row in listed] == expected
