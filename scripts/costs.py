"""Estimates the cost of an installation on AWS from list prices and assumptions: `python scripts/costs.py`.

docs/how-to/deploy-aws.md contains the output. Prices are for us-east-1 and x86_64 in November 2026, in US dollars,
without free tiers.
"""

from __future__ import annotations

from dataclasses import dataclass

PRICE_VCPU_HOUR, PRICE_GB_HOUR = 0.052624, 0.0057785  # EMR Serverless
PRICE_CALL, PRICE_FUNCTION_GB_SECOND = 0.20e-6, 16.6667e-6  # Lambda
PRICE_MESSAGE = 0.40e-6  # SQS, per request
PRICE_EVENT = 1.00e-6  # EventBridge, for opt-in events of S3
PRICE_STATE_WRITE, PRICE_STATE_READ = 0.625e-6, 0.125e-6  # DynamoDB on demand
PRICE_PUT, PRICE_GET = 5.00e-6, 0.40e-6  # S3
PRICE_LOG_GB = 0.50
PRICE_ALARM, PRICE_METRIC, PRICE_DASHBOARD = 0.10, 0.30, 3.00  # CloudWatch, per month

HOURS_OF_MONTH = 730
SWEEPS = HOURS_OF_MONTH * 12
WORKER_VCPU, WORKER_GB = 2, 8
START_SECONDS = 60  # minimum billed time of a job
FUNCTION_GB, FUNCTION_SECONDS = 0.5, 0.5
POLLS = HOURS_OF_MONTH * 3600 / 20 * 5  # Lambda polls an idle queue five times in 20 seconds
ALARMS, METRICS = 12, 9
LOG_BYTES_OF_CALL = 2_000
PUTS_OF_MERGE, GETS_OF_MERGE, WRITES_OF_MERGE = 15, 60, 10
SECONDS_OF_MILLION = (
    10  # on two vCPUs; 3.5 on local disks (performance.md, `large`), but object storage is slower
)


@dataclass(frozen=True)
class Scenario:
    """A usage scenario and its costs in dollars."""

    title: str
    merges: int = 0
    driver_hours: float = 0
    executor_hours: float = 0
    calls: float = 0
    fixed: float = 0

    @property
    def jobs(self) -> float:
        """Cost of EMR's workers."""
        hours = self.driver_hours + self.executor_hours
        return hours * (WORKER_VCPU * PRICE_VCPU_HOUR + WORKER_GB * PRICE_GB_HOUR)

    @property
    def trigger(self) -> float:
        """Cost of function, queue, events and state."""
        call = (
            PRICE_CALL
            + FUNCTION_GB * FUNCTION_SECONDS * PRICE_FUNCTION_GB_SECOND
            + 3 * PRICE_MESSAGE
            + PRICE_EVENT
        )
        stored = 4 * PRICE_STATE_READ + 2 * PRICE_STATE_WRITE + LOG_BYTES_OF_CALL / 1e9 * PRICE_LOG_GB
        return self.calls * (call + stored) + self.merges * WRITES_OF_MERGE * PRICE_STATE_WRITE

    @property
    def requests(self) -> float:
        """Cost of the jobs' requests to S3."""
        return self.merges * (PUTS_OF_MERGE * PRICE_PUT + GETS_OF_MERGE * PRICE_GET)

    @property
    def total(self) -> float:
        """Total cost."""
        return self.jobs + self.trigger + self.requests + self.fixed


COMMITS = 2 * 24 * 60
MILLION_HOURS = SECONDS_OF_MILLION / 3600
SHORT_HOURS = (START_SECONDS + 2) / 3600

SCENARIOS = (
    Scenario(
        "an idle month",
        driver_hours=30 * SHORT_HOURS,  # nightly maintenance
        calls=SWEEPS,
        fixed=POLLS * PRICE_MESSAGE + ALARMS * PRICE_ALARM + METRICS * PRICE_METRIC + PRICE_DASHBOARD,
    ),
    Scenario(
        "a million events in one commit",
        merges=1,
        driver_hours=2 * START_SECONDS / 3600 + MILLION_HOURS,  # start and linger
        executor_hours=2 * START_SECONDS / 3600 + MILLION_HOURS,
        calls=2,
    ),
    Scenario(
        "a million events a day, two commits a minute, merged within seconds (default: the job lingers all day)",
        merges=COMMITS,
        driver_hours=24,
        calls=COMMITS,
    ),
    Scenario(
        "the same, merged every 15 minutes (`min_interval: 15m`, `linger: 0s`)",
        merges=96,
        driver_hours=96 * SHORT_HOURS,
        calls=COMMITS,
    ),
)


def table() -> str:
    """Return the scenarios as a Markdown table."""
    head = ("", "jobs", "trigger", "requests to S3", "monitoring", "total")
    rows = [
        (
            scenario.title,
            *map(
                dollars, (scenario.jobs, scenario.trigger, scenario.requests, scenario.fixed, scenario.total)
            ),
        )
        for scenario in SCENARIOS
    ]
    lines = [f"| {' | '.join(row)} |" for row in (head, ("---", *["---:"] * 5), *rows)]
    return "\n".join(lines)


def dollars(amount: float) -> str:
    """Format an amount; a dash stands for less than $0.001."""
    if amount < 0.001:
        return "–"
    return f"${amount:.2f}" if amount >= 0.1 else f"${amount:.3f}"


if __name__ == "__main__":
    print(table())
