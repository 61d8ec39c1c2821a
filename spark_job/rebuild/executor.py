"""What rebuilds and replays need of the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from icemirror.settings import Settings, TableSettings
from spark_job.iceberg.catalogs import Catalogs
from spark_job.plan.planner import Planner
from spark_job.plan.plans import Executed, Plan


class Executor(Protocol):
    """Executes plans, one commit at a time."""

    @property
    def settings(self) -> Settings:
        """The configuration."""

    @property
    def catalogs(self) -> Catalogs:
        """Where mirrors and changelogs are."""

    @property
    def planner(self) -> Planner:
        """Plans the tables of the configuration."""

    @property
    def run_id(self) -> str:
        """The run that commits."""

    def execute(self, table: TableSettings, make_plan: Callable[[], Plan]) -> Executed:
        """Execute a plan in one commit; plan again after a conflict."""
