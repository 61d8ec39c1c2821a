"""Error reports to Sentry, if configured: what failed and where, never data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from icemirror import __version__
from icemirror.errors import IcemirrorError
from icemirror.telemetry.logs import bound_fields, get_log
from icemirror.telemetry.redaction import redact, redact_tree

if TYPE_CHECKING:
    from sentry_sdk.transport import Transport
    from sentry_sdk.types import Event, Hint

log = get_log(__name__)

SERVICE = "iceberg-merger"
WITHHELD = "(withheld: a library's error message may quote data; see the log)"

# Parts of an event that may contain data: arguments, requests, earlier log lines, user, host.
_DROPPED_FIELDS = ("breadcrumbs", "extra", "request", "user", "server_name", "modules")

Report = Callable[[BaseException], None]


def open_sentry(
    dsn: str | None,
    *,
    project_ref: str,
    environment: str,
    release: str = f"icemirror@{__version__}",
    transport: Transport | None = None,
) -> Report:
    """Return a function that reports an error with the bound table and run; it does nothing if there is no DSN."""
    if not dsn:
        return report_nothing
    try:
        import sentry_sdk
        from sentry_sdk.integrations.atexit import AtexitIntegration
        from sentry_sdk.integrations.dedupe import DedupeIntegration
        from sentry_sdk.integrations.excepthook import ExcepthookIntegration
        from sentry_sdk.integrations.threading import ThreadingIntegration
    except ModuleNotFoundError as missing:
        log.warning("Sentry disabled, install icemirror[telemetry]", missing=missing.name)
        return report_nothing
    sentry_sdk.init(
        dsn=dsn,
        release=release,
        environment=environment,
        transport=transport,
        # Only the integrations that report crashes: others record arguments, log lines and requests.
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[
            AtexitIntegration(callback=_print_nothing),
            DedupeIntegration(),
            ExcepthookIntegration(),
            ThreadingIntegration(),
        ],
        # Personal data is off by default; setting `send_default_pii` is deprecated.
        include_local_variables=False,
        max_breadcrumbs=0,
        before_send=strip_event,
    )
    sentry_sdk.get_global_scope().set_tags({"service": SERVICE, "project_ref": project_ref})

    def report(error: BaseException) -> None:
        with sentry_sdk.new_scope() as scope:
            for name, value in bound_fields().items():
                scope.set_tag(name, value)
            scope.capture_exception(error)

    return report


def strip_event(event: Event, hint: Hint) -> Event:
    """Reduce an event to class, location, icemirror's messages and tags, with secrets masked."""
    # Any: an event is a dictionary in which every part may be missing or of another type.
    stripped: dict[str, Any] = {name: value for name, value in event.items() if name not in _DROPPED_FIELDS}
    icemirror_errors = {(error.__module__, error.__qualname__) for error in _with_subclasses(IcemirrorError)}
    for raised in (stripped.get("exception") or {}).get("values") or []:
        # icemirror's messages never quote rows or keys; a library's may ("could not convert 'Ann' …").
        is_icemirror_error = (raised.get("module"), raised.get("type")) in icemirror_errors
        raised["value"] = redact(str(raised.get("value") or "")) if is_icemirror_error else WITHHELD
        for frame in (raised.get("stacktrace") or {}).get("frames") or []:
            frame.pop("vars", None)
    return redact_tree(stripped)  # type: ignore[return-value]  # the same dictionary, masked


def _with_subclasses(error: type[IcemirrorError]) -> Iterator[type[IcemirrorError]]:
    yield error
    for subclass in error.__subclasses__():
        yield from _with_subclasses(subclass)


def report_nothing(error: BaseException) -> None:
    """Ignore the error."""


def _print_nothing(pending: int, timeout: float) -> None:
    """Replace Sentry's default, which prints to stderr: only log lines belong there."""
