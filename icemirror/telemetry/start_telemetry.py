"""Start logs and error reports as configured."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from icemirror.telemetry.logs import configure_logs
from icemirror.telemetry.redaction import register_secret
from icemirror.telemetry.sentry import open_sentry

if TYPE_CHECKING:
    from icemirror.settings import Settings


def start_logs(settings: Settings, *, quiet: bool = False, debug: bool = False) -> None:
    """Send logs to stderr, with secrets masked. `quiet`, for a live display: only warnings, as text.

    On a terminal the format is text unless the configuration sets one.
    """
    telemetry = settings.telemetry
    is_interactive = (
        sys.stderr is not None and sys.stderr.isatty() and "log_format" not in telemetry.model_fields_set
    )
    for secret in settings.secret_values():
        register_secret(secret)
    configure_logs(
        log_format="text" if quiet or is_interactive else telemetry.log_format,
        log_level="warning" if quiet else telemetry.log_level,
        project_ref=settings.project_ref,
        environment=settings.environment,
        debug=debug,
    )


def open_report(settings: Settings) -> Callable[[BaseException], None]:
    """Return a function that reports errors to Sentry; it does nothing if Sentry is not configured."""
    dsn = settings.sentry.dsn.get_secret_value() if settings.sentry else None
    return open_sentry(dsn, project_ref=settings.project_ref, environment=settings.environment)
