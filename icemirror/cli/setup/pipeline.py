"""Opens what a command of the job needs: logs and the pipeline."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

import click

from icemirror.cli.terminal.console import err

if TYPE_CHECKING:
    from icemirror.settings import Settings
    from spark_job.pipeline import Pipeline


def open_pipeline(settings: Settings, command: str, *, as_json: bool, commits: bool = False) -> Pipeline:
    """Start logs, quiet where a terminal shows progress, and build the pipeline.

    A command that `commits` gets a unique run id and honours `--debug`.
    """
    from icemirror.telemetry.start_telemetry import start_logs
    from spark_job.worker.wiring import build_pipeline

    start_logs(settings, quiet=is_interactive(as_json=as_json), debug=commits and is_debug())
    return build_pipeline(settings, run_id=f"{command}-{uuid.uuid4()}" if commits else command)


def is_interactive(*, as_json: bool) -> bool:
    """Return whether a user reads stderr, and stdout is not JSON."""
    return err.is_terminal and not as_json


def is_debug() -> bool:
    """Return whether `--debug` was given."""
    return bool(click.get_current_context().find_root().params.get("debug"))


def silence_log(module: str) -> None:
    """Hide the log of a module whose failures the terminal shows itself."""
    logging.getLogger(module).setLevel(logging.CRITICAL)
