"""Builds the trigger's collaborators from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from icemirror.errors import BadConfig
from icemirror.settings import Settings
from icemirror.settings.trigger import (
    EmrServerlessLauncherSettings,
    KubernetesLauncherSettings,
    LocalLauncherSettings,
    SqliteState,
)
from icemirror.settings.unsupported import LOCAL_NEEDS_SQLITE
from icemirror.stores.from_settings import build_policy
from icemirror.stores.store import Store
from icemirror.telemetry.metrics import Metrics
from trigger.dispatch.dispatcher import Dispatcher
from trigger.launchers.job_arguments import job_arguments
from trigger.launchers.launcher import Launcher
from trigger.launchers.local import LocalLauncher
from trigger.tables.registry import TableRegistry

if TYPE_CHECKING:
    import asyncio

    from trigger.dispatch.ingest import EventIngest
    from trigger.listeners.listener import Listener
    from trigger.service.service import Service
    from trigger.status.run_reporter import RunReporter


def build_dispatcher(
    settings: Settings, store: Store, metrics: Metrics, environ: Mapping[str, str]
) -> Dispatcher:
    """Return the dispatcher of a configuration."""
    return Dispatcher(
        registry=TableRegistry(settings),
        store=store,
        policy=build_policy(settings),
        launcher=open_launcher(settings, environ),
        config=str(settings.source_path.absolute()),
        metrics=metrics,
    )


def open_launcher(settings: Settings, environ: Mapping[str, str]) -> Launcher:
    """Open the launcher of `trigger.launcher`."""
    match launcher := settings.trigger.launcher:
        case LocalLauncherSettings():
            state = settings.trigger.state
            if not isinstance(state, SqliteState):
                # A run is identified by its process, which a trigger on another machine cannot see.
                raise BadConfig(LOCAL_NEEDS_SQLITE)
            return LocalLauncher(state.path.parent, environ)
        case EmrServerlessLauncherSettings():
            from trigger.launchers import emr_request, emr_serverless

            job = job_arguments(settings, environ, launcher.secrets, emr_request.PLATFORM_PREFIX)
            return emr_serverless.open_emr_serverless(launcher, job)
        case KubernetesLauncherSettings():
            from trigger.launchers import kubernetes, spark_application

            job = job_arguments(settings, environ, launcher.secrets, spark_application.PLATFORM_PREFIX)
            return kubernetes.open_kubernetes_launcher(launcher, job)
    assert_never(launcher)


def build_service(
    settings: Settings, ingest: EventIngest, reporter: RunReporter, loop: asyncio.AbstractEventLoop
) -> Service:
    """Return the long-running trigger of a configuration, with a listener for each of its sources."""
    # The Lambda function needs none of these.
    from trigger.listeners.listener import EventSink
    from trigger.service.health import ROUNDS, Health
    from trigger.service.rounds import RoundLoop
    from trigger.service.service import Service, WakeSignal

    sources, wake_signal = settings.trigger.sources, WakeSignal(loop)
    names = [name for name in ("kafka", "sqs") if getattr(sources, name) is not None]
    health = Health((ROUNDS, *names))
    sink = EventSink(ingest, wake_signal.send, health.record_heartbeat)
    listeners: list[Listener] = []
    if sources.kafka is not None:
        if not sources.kafka.topics:
            raise BadConfig(
                "trigger.sources.kafka.topics: name at least one, or remove trigger.sources.kafka"
            )
        from trigger.listeners.kafka import KafkaListener

        listeners.append(KafkaListener(sources.kafka, settings.source_path.absolute().parent, sink))
    if sources.sqs is not None:
        from trigger.listeners.sqs import SqsListener

        listeners.append(SqsListener(sources.sqs, sink))
    rounds = RoundLoop(
        ingest.dispatcher, reporter, settings.merge_interval, heartbeat=lambda: health.touch(ROUNDS)
    )
    return Service(ingest, rounds, listeners, health, wake_signal)
