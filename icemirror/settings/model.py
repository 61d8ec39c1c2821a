"""The whole configuration file as one frozen model."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, SecretStr

from icemirror.errors import BadConfig, Invalid
from icemirror.settings.address import ListenAddress
from icemirror.settings.catalogs import IcebergSettings, place_problems
from icemirror.settings.contradictions import Contradiction
from icemirror.settings.discovery import DiscoverSettings
from icemirror.settings.quantities import Bytes, Seconds
from icemirror.settings.rejects import rejects_clashes
from icemirror.settings.secret_values import secret_values
from icemirror.settings.section import Name, Properties, Section, Url
from icemirror.settings.table_options import TableOptions
from icemirror.settings.tables import TableSettings
from icemirror.settings.trigger import TriggerSettings

SWITCHABLE_SECTIONS = (
    ("sentry",),
    ("telemetry",),
    ("trigger", "sources", "kafka"),
    ("trigger", "sources", "sqs"),
    ("trigger", "sources", "http"),
)
"""Sections that are off (or at their defaults) when all of their values are unset environment variables."""


class JobSettings(Section):
    """The Spark job."""

    linger: Seconds = Field(
        default="60s",
        validate_default=True,
        description="How long a job without work waits for more before it ends.",
    )
    max_slice_bytes: Bytes = Field(
        default="512MB",
        validate_default=True,
        gt=0,
        description="Most bytes of changelog files in one commit.",
    )
    spark_from_events: int = Field(
        default=20_000,
        ge=0,
        description="A slice with fewer events is merged by the job's own process, which is quicker than a task of "
        "Spark. 0: all of them on Spark.",
    )
    spark: Properties = Field(
        default={}, description="Spark's own properties, `spark.driver.memory` and the like."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Spark ignores properties whose name does not begin with `spark.`."""
        for name in self.spark:
            if not name.startswith("spark."):
                yield Contradiction(("spark", name), f"a Spark property begins with `spark.`: spark.{name}?")


class TelemetrySettings(Section):
    """Logs and metrics."""

    log_format: Literal["json", "text"] = Field(
        default="json",
        description="One JSON object per line, or text for people, which is the default on a terminal.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity that is logged."
    )
    prometheus: ListenAddress | None = Field(
        default="127.0.0.1:9464",
        validate_default=True,
        description="Where `watch` and `serve` offer metrics to Prometheus; null: nowhere.",
    )
    otlp: Url | None = Field(
        default=None, description="OpenTelemetry collector to send metrics to, `http://…`."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """OTLP is spoken over HTTP."""
        if self.otlp is not None and not self.otlp.startswith(("http://", "https://")):
            yield Contradiction(("otlp",), "expected an address such as http://localhost:4318")


class SentrySettings(Section):
    """Errors to Sentry."""

    dsn: SecretStr = Field(description="Sentry's address for this project.")


class Settings(Section):
    """The configuration of icemirror."""

    project_ref: Name = Field(default="icemirror", description="Label on logs and metrics.")
    environment: Name = Field(default="dev", description="Label on logs and metrics.")
    iceberg: IcebergSettings = Field(description="The Iceberg catalogs.")
    tables: tuple[TableSettings, ...] = Field(default=(), description="The mirrors to keep.")
    discover: tuple[DiscoverSettings, ...] = Field(
        default=(), description="Every matching changelog becomes a table."
    )
    merge_interval: Seconds = Field(
        default="1h",
        validate_default=True,
        gt=0,
        description="A table is looked at at least this often, events or not: "
        "a mirror that was dropped or rolled back is made good by then.",
    )
    batch_size: int | None = Field(
        default=None, gt=0, description="Most events in one commit. Default: by bytes."
    )
    index_location: Url | None = Field(
        default=None,
        description="Folder of the key indexes. "
        "Default: `_icemirror_index/<table uuid>/` beside the table's location.",
    )
    job: JobSettings = Field(default=JobSettings(), description="The Spark job.")
    trigger: TriggerSettings = Field(
        default=TriggerSettings(), description="How changes are noticed and jobs launched."
    )
    telemetry: TelemetrySettings = Field(default=TelemetrySettings(), description="Logs and metrics.")
    sentry: SentrySettings | None = Field(
        default=None, description="Errors to Sentry. Default: on if the environment has `SENTRY_DSN`."
    )

    _source_path: Path = PrivateAttr(default=Path("icemirror.yaml"))

    @property
    def source_path(self) -> Path:
        """The file that these settings were read from."""
        return self._source_path

    def table(self, name: str) -> TableSettings:
        """The table with this mirror's, or changelog's, dotted name."""
        for table in self.tables:
            if table.name == name:
                return table
        of_changelog = [table for table in self.tables if str(table.changelog_id) == name]
        match of_changelog:
            case [table]:
                return table
            case []:
                raise BadConfig(f"no table {name!r} is configured{self._nearest_table(name)}")
            case _:
                mirrors = ", ".join(table.name for table in of_changelog)
                raise BadConfig(f"the changelog {name} has several mirrors, name one of them: {mirrors}")

    def _nearest_table(self, name: str) -> str:
        known = [table.name for table in self.tables] + [str(table.changelog_id) for table in self.tables]
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        if close:
            return f"; did you mean {close[0]}?"
        return f"; there are: {', '.join(table.name for table in self.tables)}" if known else ""

    def catalog_properties(self, name: str | None) -> dict[str, str]:
        """PyIceberg's properties of a catalog, secrets included; None is the default catalog."""
        properties = self.iceberg.properties(name)
        if properties is None:
            raise Invalid(
                f"no catalog {name!r} under iceberg.catalogs{_nearest(name or '', self.iceberg.catalogs)}"
            )
        return properties

    def secret_values(self) -> frozenset[str]:
        """Every secret in these settings, to be kept out of logs and messages."""
        return frozenset(secret_values(self))

    def contradictions(self) -> Iterator[Contradiction]:
        """There are tables, their mirrors differ, and the catalogs that they name exist."""
        if not self.tables and not self.discover:
            yield Contradiction(("tables",), "no tables: list some here, or let `discover` find them")
        if self.index_location is not None:
            yield from place_problems(("index_location",), self.index_location)
        for at, message in (*mirror_clashes(self.tables), *rejects_clashes(self.tables)):
            yield Contradiction(("tables", at), message)
        options: list[tuple[str, Sequence[TableOptions]]] = [
            ("tables", self.tables),
            ("discover", self.discover),
        ]
        for section, entries in options:
            for at, entry in enumerate(entries):
                for key in ("changelog_catalog", "mirror_catalog"):
                    name = getattr(entry, key)
                    if name is not None and name not in self.iceberg.catalogs:
                        near = _nearest(name, self.iceberg.catalogs)
                        yield Contradiction(
                            (section, at, key), f"no catalog {name!r} under iceberg.catalogs{near}"
                        )


def mirror_clashes(tables: Sequence[TableSettings]) -> Iterator[tuple[int, str]]:
    """Tables whose mirror another table keeps already, or reads as its changelog."""
    by_mirror: dict[str, TableSettings] = {}
    for at, table in enumerate(tables):
        other = by_mirror.setdefault(table.name, table)
        if other is not table:
            yield at, f"the mirror {table.name} is kept from {other.changelog_id} already"
    changelogs = {(table.changelog_id, table.changelog_catalog) for table in tables}
    for at, table in enumerate(tables):
        if not table.append_only and (table.mirror_id, table.mirror_catalog) in changelogs:
            yield at, f"the mirror {table.name} is another table's changelog, which must be append-only"


def _nearest(name: str, known: Iterator[str] | dict[str, dict[str, str]]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are: {', '.join(names)}" if names else ""
