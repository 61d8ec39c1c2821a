"""Logs and error reports as a configuration asks for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from icemirror.telemetry.logs import configure
from icemirror.telemetry.redaction import register_secret
from icemirror.telemetry.sentry import open_sentry

if TYPE_CHECKING:
    from icemirror.settings import Settings


def start_logs(settings: Settings, *, quiet: bool = False, debug: bool = False) -> None:
    """Sends logs to stderr, secrets masked; `quiet`, for people before a live display: warnings, as text.

    A terminal has a person before it, who gets text unless the configuration itself says otherwise.
    """
    telemetry = settings.telemetry
    people = sys.stderr is not None and sys.stderr.isatty() and "log_format" not in telemetry.model_fields_set
    for secret in settings.secret_values():
        register_secret(secret)
    configure(
        log_format="text" if quiet or people else telemetry.log_format,
        log_level="warning" if quiet else telemetry.log_level,
        project_ref=settings.project_ref,
        environment=settings.environment,
        debug=debug,
    )


def open_report(settings: Settings) -> Callable[[BaseException], None]:
    """A function that reports errors to Sentry, if the configuration names one."""
    dsn = settings.sentry.dsn.get_secret_value() if settings.sentry else None
    return open_sentry(dsn, project_ref=settings.project_ref, environment=settings.environment)
