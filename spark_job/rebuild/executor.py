"""The part of the pipeline that rebuilds and replays use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from icemirror.settings import Settings, TableSettings
from spark_job.iceberg.catalogs import Catalogs
from spark_job.plan.attempt_findings import AttemptFindings
from spark_job.plan.planner import Planner
from spark_job.plan.plans import Plan, PlanOutcome


class PlanExecutor(Protocol):
    """Executes plans, one commit at a time."""

    @property
    def settings(self) -> Settings:
        """The configuration."""

    @property
    def catalogs(self) -> Catalogs:
        """The catalogs of mirrors and changelogs."""

    @property
    def planner(self) -> Planner:
        """The planner of the configured tables."""

    @property
    def run_id(self) -> str:
        """The id of the run that commits."""

    def execute(
        self, table_settings: TableSettings, make_plan: Callable[[AttemptFindings], Plan]
    ) -> PlanOutcome:
        """Execute a plan in one commit; plan again after a conflict. Return what was executed."""
