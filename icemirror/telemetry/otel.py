"""Metrics through OpenTelemetry: scraped by Prometheus, or sent to a collector.

Importing it loads OpenTelemetry, so `open_metrics` imports it only if metrics are exported.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, generate_latest

from icemirror import __version__
from icemirror.telemetry import metric_names
from icemirror.telemetry.metric_names import Instrument, Metric, Unit
from icemirror.telemetry.metrics import check_use

KIB = 1024
SECONDS_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
BYTES_BUCKETS = tuple(4 * KIB * 4**step for step in range(10))  # 4 KiB … 1 GiB
EVENTS_BUCKETS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
OTLP_INTERVAL_SECONDS = 15

Record = Callable[[float, dict[str, str]], None]


def histogram_buckets(metric: Metric) -> tuple[float, ...]:
    """Return the histogram buckets of a metric."""
    match metric.unit:
        case Unit.SECONDS:
            return SECONDS_BUCKETS
        case Unit.BYTES:
            return BYTES_BUCKETS
        case Unit.NONE:
            return EVENTS_BUCKETS


class OtelMetrics:
    """Records metrics with OpenTelemetry in this process; a scrape gets `exposition`."""

    def __init__(self, *, project_ref: str, environment: str, otlp: str | None) -> None:
        resource = Resource(
            {
                "service.name": "icemirror",
                "service.version": __version__,
                "project_ref": project_ref,
                "environment": environment,
            }
        )
        # A separate registry: the global one also has metrics of other code in the process.
        self._registry = CollectorRegistry()
        # No scope labels on every sample: the contract's only label is the table.
        readers: list[MetricReader] = [
            PrometheusMetricReader(scope_info_enabled=False, registry=self._registry)
        ]
        if otlp:
            readers.append(_otlp_reader(otlp))
        self._provider = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("icemirror", __version__)
        self._record = {
            metric.name: _create_instrument(meter, metric)
            for metric in metric_names.ALL
            if metric is not metric_names.RESIDENT_BYTES
        }
        memory = metric_names.RESIDENT_BYTES
        meter.create_observable_gauge(memory.name, [_observe_memory], memory.unit.value, memory.description)

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        """Add `amount` to a counter."""
        check_use(metric, Instrument.COUNTER, amount, labels)
        self._record[metric.name](amount, labels)

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Record one duration or size in a histogram."""
        check_use(metric, Instrument.HISTOGRAM, value, labels)
        self._record[metric.name](value, labels)

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""
        check_use(metric, Instrument.GAUGE, value, labels)
        self._record[metric.name](value, labels)

    def exposition(self) -> bytes | None:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def close(self) -> None:
        """Send what the collector has not received yet."""
        self._provider.shutdown()


def _create_instrument(meter: Meter, metric: Metric) -> Record:
    arguments = (metric.name, metric.unit.value, metric.description)
    match metric.instrument:
        case Instrument.COUNTER:
            return meter.create_counter(*arguments).add
        case Instrument.HISTOGRAM:
            return meter.create_histogram(
                *arguments, explicit_bucket_boundaries_advisory=histogram_buckets(metric)
            ).record
        case Instrument.GAUGE:
            return meter.create_gauge(*arguments).set


def resident_bytes() -> int | None:
    """Return the resident set size: the current one on Linux, elsewhere the peak."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others KiB
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return None


def _observe_memory(_: CallbackOptions) -> Iterable[Observation]:
    size = resident_bytes()
    return [] if size is None else [Observation(size)]


def _otlp_reader(address: str) -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter = OTLPMetricExporter(endpoint=f"{address.rstrip('/')}/v1/metrics")
    return PeriodicExportingMetricReader(exporter, export_interval_millis=OTLP_INTERVAL_SECONDS * 1000)
