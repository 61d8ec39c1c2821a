"""Counting and measuring. Code that counts is given a `Metrics`; who reads it is decided at the start."""

from __future__ import annotations

from typing import Protocol

from icemirror.telemetry.logs import get_log
from icemirror.telemetry.names import Instrument, Metric

log = get_log(__name__)


class Metrics(Protocol):
    """What code may count, and how it is read."""

    def count(self, metric: Metric, n: int = 1, **labels: str) -> None:
        """It happened `n` times more."""

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """One duration or size."""

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        """It is this much now."""

    def exposition(self) -> bytes | None:
        """All of it as Prometheus reads it; None where nothing is kept."""

    def close(self) -> None:
        """Send what is not sent yet."""


class NoMetrics:
    """Keeps nothing; still refuses what the real ones would refuse."""

    def count(self, metric: Metric, n: int = 1, **labels: str) -> None:
        """Nothing."""
        check_use(metric, Instrument.COUNTER, n, labels)

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Nothing."""
        check_use(metric, Instrument.HISTOGRAM, value, labels)

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        """Nothing."""
        check_use(metric, Instrument.GAUGE, value, labels)

    def exposition(self) -> bytes | None:
        """Nothing."""
        return None

    def close(self) -> None:
        """Nothing."""


def check_use(metric: Metric, instrument: Instrument, value: float, labels: dict[str, str]) -> None:
    """A metric used as what it is not, or with other labels than its own, is a bug of the caller."""
    if metric.instrument is not instrument:
        raise ValueError(f"{metric.name} is a {metric.instrument}, not a {instrument}")
    given, needed = set(labels), set(metric.labels)
    if given != needed:
        raise ValueError(f"{metric.name} has the labels {sorted(needed)}, not {sorted(given)}")
    if instrument is Instrument.COUNTER and value < 0:
        raise ValueError(f"{metric.name} only grows, and was given {value}")


def open_metrics(
    *, project_ref: str, environment: str, prometheus: bool = True, otlp: str | None = None
) -> Metrics:
    """Real ones where Prometheus or a collector is to get them and the packages are installed, else none."""
    if not prometheus and not otlp:
        return NoMetrics()
    try:
        from icemirror.telemetry.otel import OtelMetrics

        return OtelMetrics(project_ref=project_ref, environment=environment, otlp=otlp)
    except ModuleNotFoundError as missing:
        log.warning("no metrics: install icemirror[telemetry]", missing=missing.name)
        return NoMetrics()
