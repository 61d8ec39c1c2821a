"""The configuration file as one frozen model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, SecretStr

from icemirror.errors import BadConfig, Invalid
from icemirror.settings.address import ListenAddress
from icemirror.settings.catalogs import IcebergSettings, location_problems
from icemirror.settings.discovery import DiscoverSettings
from icemirror.settings.masking import secret_values
from icemirror.settings.name_clashes import mirror_clashes, rejects_clashes
from icemirror.settings.quantities import Bytes, Seconds
from icemirror.settings.section import Name, Properties, Section, Url
from icemirror.settings.setting_problems import SettingProblem
from icemirror.settings.table_options import TableOptions
from icemirror.settings.tables import TableSettings
from icemirror.settings.trigger import TriggerSettings
from icemirror.similar_names import suggest

OPTIONAL_SECTIONS = (
    ("sentry",),
    ("telemetry",),
    ("trigger", "sources", "kafka"),
    ("trigger", "sources", "sqs"),
    ("trigger", "sources", "http"),
)
"""Sections that are off (or have their defaults) if all their values are unset environment variables."""


# Properties that Spark needs before its JVM starts; a job sets all others itself. These appear in process lists and job
# descriptions, so they are kept to a minimum.
LAUNCH_PROPERTIES = ("spark.driver.", "spark.jars", "spark.files", "spark.archives", "spark.submit.")


class JobSettings(Section):
    """The Spark job."""

    linger: Seconds = Field(
        default="60s",
        validate_default=True,
        description="How long an idle job waits for more work before it ends.",
    )
    max_slice_bytes: Bytes = Field(
        default="512MB",
        validate_default=True,
        gt=0,
        description="Maximum size of the changelog files in one commit.",
    )
    spark_from_events: int = Field(
        default=20_000,
        ge=0,
        description="A slice with fewer events is merged in the job's process, which is faster than a Spark task. "
        "0: always use Spark.",
    )
    spark: Properties = Field(default={}, description="Spark properties, such as `spark.driver.memory`.")

    def problems(self) -> Iterator[SettingProblem]:
        """Yield properties that Spark would ignore, because they do not start with `spark.`."""
        for name in self.spark:
            if not name.startswith("spark."):
                yield SettingProblem(("spark", name), f"Spark properties start with `spark.`: spark.{name}?")


class TelemetrySettings(Section):
    """Logs and metrics."""

    log_format: Literal["json", "text"] = Field(
        default="json",
        description="`json`: one object per line; `text`: short lines, the default on a terminal.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is logged."
    )
    prometheus: ListenAddress | None = Field(
        default="127.0.0.1:9464",
        validate_default=True,
        description="Address of the status page and Prometheus metrics of `watch` and `serve`; null: off.",
    )
    otlp: Url | None = Field(
        default=None, description="OpenTelemetry collector that receives the metrics, `http://…`."
    )

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless the collector has an HTTP URL."""
        if self.otlp is not None and not self.otlp.startswith(("http://", "https://")):
            yield SettingProblem(("otlp",), "expected a URL such as http://localhost:4318")


class SentrySettings(Section):
    """Error reports to Sentry."""

    dsn: SecretStr = Field(description="Sentry's DSN of this project.")


class Settings(Section):
    """The configuration of icemirror."""

    project_ref: Name = Field(default="icemirror", description="Project label on logs and metrics.")
    environment: Name = Field(default="dev", description="Environment label on logs and metrics.")
    iceberg: IcebergSettings = Field(description="The Iceberg catalogs.")
    tables: tuple[TableSettings, ...] = Field(
        default=(), description="The tables: changelogs and their mirrors."
    )
    discover: tuple[DiscoverSettings, ...] = Field(
        default=(), description="Patterns; every matching changelog becomes a table."
    )
    merge_interval: Seconds = Field(
        default="1h",
        validate_default=True,
        gt=0,
        description="Check each table at least this often, with or without events. This also repairs a mirror that "
        "was dropped or rolled back.",
    )
    batch_size: int | None = Field(
        default=None,
        gt=0,
        description="Maximum number of events in one commit. Default: limited by bytes only.",
    )
    index_location: Url | None = Field(
        default=None,
        description="Folder of the key indexes. Default: `_icemirror_index/<table uuid>/` next to the table.",
    )
    job: JobSettings = Field(default=JobSettings(), description="The Spark job.")
    trigger: TriggerSettings = Field(
        default=TriggerSettings(), description="How new commits are detected and jobs launched."
    )
    telemetry: TelemetrySettings = Field(default=TelemetrySettings(), description="Logs and metrics.")
    sentry: SentrySettings | None = Field(
        default=None, description="Error reports to Sentry. Default: on if the environment has `SENTRY_DSN`."
    )

    _source_path: Path = PrivateAttr(default=Path("icemirror.yaml"))

    @property
    def source_path(self) -> Path:
        """The file of these settings."""
        return self._source_path

    def table(self, name: str) -> TableSettings:
        """Return the table with this dotted name of its mirror or changelog."""
        for table in self.tables:
            if table.name == name:
                return table
        mirrors_of_changelog = [table for table in self.tables if str(table.changelog_id) == name]
        match mirrors_of_changelog:
            case [table]:
                return table
            case []:
                raise BadConfig(f"table {name!r} is not configured{self._suggest_table(name)}")
            case _:
                mirrors = ", ".join(table.name for table in mirrors_of_changelog)
                raise BadConfig(f"--table: the changelog {name} has several mirrors; give one of: {mirrors}")

    def _suggest_table(self, name: str) -> str:
        table_names = [table.name for table in self.tables]
        changelog_names = [str(table.changelog_id) for table in self.tables]
        hint = suggest(name, [*table_names, *changelog_names], cutoff=0.5)
        return hint or (f"; configured: {', '.join(table_names)}" if table_names else "")

    def catalog_properties(self, name: str | None) -> dict[str, str]:
        """Return PyIceberg's properties of a catalog, including secrets; None is the default catalog."""
        properties = self.iceberg.properties(name)
        if properties is None:
            raise Invalid(
                f"no catalog {name!r} under iceberg.catalogs{_suggest_catalog(name or '', self.iceberg.catalogs)}"
            )
        return properties

    def secret_values(self) -> frozenset[str]:
        """Return every secret in these settings, to keep them out of logs and messages."""
        return frozenset(secret_values(self))

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless there are tables, their mirrors differ, and their catalogs exist."""
        if not self.tables and not self.discover:
            state = "empty" if "tables" in self.model_fields_set else "missing"
            yield SettingProblem(("tables",), f"{state}: list your tables under `tables`, or use `discover`")
        if self.index_location is not None:
            yield from location_problems(("index_location",), self.index_location)
        for index, message in (*mirror_clashes(self.tables), *rejects_clashes(self.tables)):
            yield SettingProblem(("tables", index), message)
        entries_by_section: list[tuple[str, Sequence[TableOptions]]] = [
            ("tables", self.tables),
            ("discover", self.discover),
        ]
        for section, entries in entries_by_section:
            for index, entry in enumerate(entries):
                for key in ("changelog_catalog", "mirror_catalog"):
                    name = getattr(entry, key)
                    if name is not None and name not in self.iceberg.catalogs:
                        hint = _suggest_catalog(name, self.iceberg.catalogs)
                        yield SettingProblem(
                            (section, index, key), f"no catalog {name!r} under iceberg.catalogs{hint}"
                        )


def _suggest_catalog(name: str, catalogs: dict[str, dict[str, str]]) -> str:
    return suggest(name, catalogs) or (f"; configured: {', '.join(catalogs)}" if catalogs else "")
