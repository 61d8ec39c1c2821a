"""The metrics interface. Callers record through `Metrics`; `open_metrics` chooses the exporter."""

from __future__ import annotations

from typing import Protocol

from icemirror.telemetry.logs import get_log
from icemirror.telemetry.metric_names import Instrument, Metric

log = get_log(__name__)


class Metrics(Protocol):
    """Records and exports metrics."""

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        """Add `amount` to a counter."""

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Record one duration or size in a histogram."""

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""

    def exposition(self) -> bytes | None:
        """Return all metrics in Prometheus' text format; None if none are recorded."""

    def close(self) -> None:
        """Send what is not sent yet."""


class NoMetrics:
    """Records nothing, but refuses invalid use like the real implementation."""

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        """Only check the use."""
        check_use(metric, Instrument.COUNTER, amount, labels)

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Only check the use."""
        check_use(metric, Instrument.HISTOGRAM, value, labels)

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        """Only check the use."""
        check_use(metric, Instrument.GAUGE, value, labels)

    def exposition(self) -> bytes | None:
        """Return None."""
        return None

    def close(self) -> None:
        """Do nothing."""


def check_use(metric: Metric, instrument: Instrument, value: float, labels: dict[str, str]) -> None:
    """Raise if a metric is used with a wrong instrument, wrong labels or a negative count."""
    if metric.instrument is not instrument:
        raise ValueError(f"{metric.name} is a {metric.instrument}, not a {instrument}")
    labels_used, labels_required = set(labels), set(metric.labels)
    if labels_used != labels_required:
        raise ValueError(f"{metric.name} has the labels {sorted(labels_required)}, not {sorted(labels_used)}")
    if instrument is Instrument.COUNTER and value < 0:
        raise ValueError(f"{metric.name} is a counter and cannot decrease: {value}")


def open_metrics(
    *, project_ref: str, environment: str, prometheus: bool = True, otlp: str | None = None
) -> Metrics:
    """Open the metrics; `NoMetrics` if nothing exports them or OpenTelemetry is not installed."""
    if not prometheus and not otlp:
        return NoMetrics()
    try:
        from icemirror.telemetry.otel import OtelMetrics

        return OtelMetrics(project_ref=project_ref, environment=environment, otlp=otlp)
    except ModuleNotFoundError as missing:
        log.warning("metrics disabled, install icemirror[telemetry]", missing=missing.name)
        return NoMetrics()
