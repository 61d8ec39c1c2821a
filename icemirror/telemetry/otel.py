"""Metrics through OpenTelemetry, for Prometheus to read and to send to a collector.

It loads OpenTelemetry: `open_metrics` imports it where somebody wants metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, generate_latest

from icemirror import __version__
from icemirror.telemetry import names
from icemirror.telemetry.memory import resident_bytes
from icemirror.telemetry.metrics import check_use
from icemirror.telemetry.names import Instrument, Metric, Unit

KIB = 1024
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
BYTES = tuple(4 * KIB * 4**step for step in range(10))  # 4 KiB … 1 GiB
EVENTS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
OTLP_INTERVAL_SECONDS = 15

Record = Callable[[float, dict[str, str]], None]


def buckets(metric: Metric) -> tuple[float, ...]:
    """The bounds between which values of this metric are told apart."""
    match metric.unit:
        case Unit.SECONDS:
            return SECONDS
        case Unit.BYTES:
            return BYTES
        case Unit.NONE:
            return EVENTS


class OtelMetrics:
    """Kept by OpenTelemetry in this process; `exposition` is what a scrape gets."""

    def __init__(self, *, project_ref: str, environment: str, otlp: str | None) -> None:
        resource = Resource(
            {
                "service.name": "icemirror",
                "service.version": __version__,
                "project_ref": project_ref,
                "environment": environment,
            }
        )
        # A registry of our own: the library's global one also holds what other code in the process counts.
        self._registry = CollectorRegistry()
        # Scope labels would come with every sample; the contract's only label is the table.
        readers: list[MetricReader] = [
            PrometheusMetricReader(scope_info_enabled=False, registry=self._registry)
        ]
        if otlp:
            readers.append(_otlp_reader(otlp))
        self._provider = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("icemirror", __version__)
        self._record = {
            metric.name: _instrument(meter, metric)
            for metric in names.ALL
            if metric is not names.RESIDENT_BYTES
        }
        memory = names.RESIDENT_BYTES
        meter.create_observable_gauge(memory.name, [_observe_memory], memory.unit.value, memory.description)

    def count(self, metric: Metric, n: int = 1, **labels: str) -> None:
        """It happened `n` times more."""
        check_use(metric, Instrument.COUNTER, n, labels)
        self._record[metric.name](n, labels)

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """One duration or size."""
        check_use(metric, Instrument.HISTOGRAM, value, labels)
        self._record[metric.name](value, labels)

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        """It is this much now."""
        check_use(metric, Instrument.GAUGE, value, labels)
        self._record[metric.name](value, labels)

    def exposition(self) -> bytes | None:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def close(self) -> None:
        """Send what the collector has not got yet."""
        self._provider.shutdown()


def _instrument(meter: Meter, metric: Metric) -> Record:
    about = (metric.name, metric.unit.value, metric.description)
    match metric.instrument:
        case Instrument.COUNTER:
            return meter.create_counter(*about).add
        case Instrument.HISTOGRAM:
            return meter.create_histogram(*about, explicit_bucket_boundaries_advisory=buckets(metric)).record
        case Instrument.GAUGE:
            return meter.create_gauge(*about).set


def _observe_memory(_: CallbackOptions) -> Iterable[Observation]:
    held = resident_bytes()
    return [] if held is None else [Observation(held)]


def _otlp_reader(address: str) -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter = OTLPMetricExporter(endpoint=f"{address.rstrip('/')}/v1/metrics")
    return PeriodicExportingMetricReader(exporter, export_interval_millis=OTLP_INTERVAL_SECONDS * 1000)
