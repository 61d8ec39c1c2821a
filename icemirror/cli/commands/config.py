"""`icemirror config check`, `icemirror config schema` and `icemirror config from-terraform`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.cli.terminal.console import err, out, print_json, print_result
from icemirror.cli.terminal.text import examples
from icemirror.settings.unsupported import unsupported_settings

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings


@click.group(epilog=examples("icemirror config check", "icemirror config schema"))
@config_option
def config(config: str | None) -> None:
    """Check the configuration, print its JSON schema, or read it from Terraform."""


@config.command(
    short_help="Validate the configuration and show it with defaults.",
    epilog=examples("icemirror config check -c icemirror.yaml", "icemirror config check --json"),
)
@config_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with all defaults filled in.")
def check(config: str | None, as_json: bool) -> None:
    """Validate the configuration and show the resolved settings. Secrets are never shown.

    Contacts no catalog. Exits with 2 if the configuration is invalid. Settings that `watch`, `serve` and `sweep`
    refuse, but `merge` accepts, are listed on stderr; the exit code is then 0.
    """
    settings = load_configuration(config)
    refused = unsupported_settings(settings)
    _print_settings(settings, as_json=as_json, merge_only=bool(refused))
    for problem in refused:
        err.print(Text("watch, serve and sweep refuse: ", style="yellow").append(problem), soft_wrap=True)


def _print_settings(settings: Settings, *, as_json: bool, merge_only: bool) -> None:
    if as_json:
        print_json(
            {
                "file": str(settings.source_path),
                "tables": [_resolve_table(table) for table in settings.tables],
                "settings": settings.model_dump(mode="json"),
            }
        )
        return
    status = "is valid for merge only" if merge_only else "is valid"
    style = "bold yellow" if merge_only else "bold green"
    out.print(Text(f"{settings.source_path} {status}", style=style), soft_wrap=True)
    for title, columns in _sections(settings):
        out.print()
        out.print(Text(title, style="bold"))
        print_result(fit_columns(columns, out.width))


@config.command(
    short_help="Print the JSON schema of the configuration.",
    epilog=examples("icemirror config schema > icemirror.schema.json"),
)
def schema() -> None:
    """Print the JSON schema of the configuration file, for editors and other checkers."""
    from icemirror.config_file.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@config.command(
    short_help="Print the configuration of a Terraform installation.",
    epilog=examples("terraform output -json | icemirror config from-terraform > icemirror.yaml"),
)
@click.option(
    "--output",
    "name",
    default="configuration",
    show_default=True,
    help="The Terraform output that contains it.",
)
@click.argument("outputs", type=click.File(encoding="utf-8"), default="-")
def from_terraform(name: str, outputs: TextIO) -> None:
    """Print the configuration of an installation created by Terraform.

    OUTPUTS is the output of `terraform output -json`; standard input by default.
    """
    from icemirror.config_file.from_terraform import from_terraform as write_configuration

    click.echo(write_configuration(outputs.read(), name, os.environ), nl=False)


def _resolve_table(table: TableSettings) -> dict[str, object]:
    """Return the settings of a table that can be resolved without the catalog."""
    return {
        "table": table.name,
        "changelog": str(table.changelog_id),
        "mirror": str(table.mirror_id),
        "primary_keys": list(table.primary_keys) or None,
        "profile": table.profile,
        "operation_column": table.resolved_operation_column,
        "operation_values": table.resolved_operation_values.model_dump(mode="json"),
        "sequence_column": list(table.resolved_sequence_columns),
        "partition_by": [str(field) for field in table.partition_by],
        "group": table.group,
    }


def _sections(settings: Settings) -> Iterator[tuple[str, list[Column]]]:
    """Yield the sections of the output, with their columns."""
    yield "Catalogs", _columns(_catalogs(settings), "name", "property", "value", text=("value",))
    if settings.tables:
        headers = ("changelog", "mirror", "key", "profile", "ordered by", "partitioned by", "group")
        yield "Tables", _columns(_tables(settings), *headers)
    if settings.discover:
        yield "Discovered", _columns(_discover(settings), "changelogs", "mirrors", "profile", "group")
    yield "Running", _columns(_running(settings), "setting", "value", text=("value",))


def _columns(rows: Iterable[Sequence[str]], *headers: str, text: Sequence[str] = ()) -> list[Column]:
    """Return columns of plain text: names may contain rich markup."""
    return [
        Column(header, [Text(cell) for cell in cells], wraps=header in text)
        for header, cells in zip(headers, zip(*rows, strict=True), strict=True)
    ]


def _catalogs(settings: Settings) -> Iterator[tuple[str, str, str]]:
    from icemirror.settings.masking import mask_properties

    for name in (None, *settings.iceberg.catalogs):
        first_cell = name or "(default)"
        for key, value in mask_properties(settings.catalog_properties(name)).items():
            yield first_cell, key, value
            first_cell = ""


def _tables(settings: Settings) -> Iterator[tuple[str, ...]]:
    for entry in settings.tables:
        yield (
            _with_catalog(str(entry.changelog_id), entry.changelog_catalog),
            f"→ {_with_catalog(entry.name, entry.mirror_catalog)}",
            _key(entry),
            entry.profile,
            _join(entry.resolved_sequence_columns, "arrival"),
            _join(map(str, entry.partition_by), "–"),
            entry.group,
        )


def _discover(settings: Settings) -> Iterator[tuple[str, ...]]:
    for entry in settings.discover:
        yield (
            _with_catalog(f"{entry.namespace}.{entry.match}", entry.changelog_catalog),
            f"→ {_with_catalog(f'{entry.mirror_namespace or entry.namespace}.*', entry.mirror_catalog)}",
            entry.profile,
            entry.group,
        )


def _running(settings: Settings) -> Iterator[tuple[str, str]]:
    from icemirror.settings.masking import mask_url
    from icemirror.settings.quantities import format_bytes, format_seconds

    trigger, job, telemetry = settings.trigger, settings.job, settings.telemetry
    batch_size = "none" if settings.batch_size is None else f"{settings.batch_size:,}"
    sources = [name for name in ("kafka", "sqs", "http") if getattr(trigger.sources, name) is not None]
    rows = {
        "labels": f"project_ref {settings.project_ref}, environment {settings.environment}",
        "state": _format_variant(trigger.state.model_dump(mode="json")),
        "launcher": _format_variant(trigger.launcher.model_dump(mode="json")),
        "sources": _join(sources, "none; heads are polled"),
        "polling": f"every {format_seconds(trigger.poll_interval)} by watch, "
        f"at least every {format_seconds(settings.merge_interval)}",
        "waiting": f"quiet_period {format_seconds(trigger.quiet_period)}, "
        f"max_wait {format_seconds(trigger.max_wait)}",
        "jobs": f"{trigger.max_concurrent_jobs} at once per group, lease {format_seconds(trigger.lease)}, "
        f"linger {format_seconds(job.linger)}",
        "retries": f"max_failures {trigger.max_failures}",
        "slice limit": f"max_slice_bytes {format_bytes(job.max_slice_bytes)}, batch_size {batch_size}",
        "index": mask_url(settings.index_location or "next to each table"),
        "logs": f"{telemetry.log_format}, {telemetry.log_level}",
        "prometheus": str(telemetry.prometheus or "off"),
        "otlp": mask_url(telemetry.otlp or "off"),
        "sentry": "off" if settings.sentry is None else "on",
    }
    yield from rows.items()


def _format_variant(section: dict[str, object]) -> str:
    """Return `sqlite  path=/data/state.db`."""
    settings = {key: value for key, value in section.items() if value not in (None, [], {})}
    return "  ".join((str(settings.pop("type")), *(f"{key}={value}" for key, value in settings.items())))


def _with_catalog(name: str, catalog: str | None) -> str:
    return name if catalog is None else f"{name} ({catalog})"


def _key(table: TableSettings) -> str:
    if table.append_only:
        return "none (append only)"
    return _join(table.primary_keys, "identifier fields")


def _join(values: Iterable[str], default: str) -> str:
    return ", ".join(values) or default
