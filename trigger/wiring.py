"""Builds the trigger's collaborators from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from icemirror.errors import BadConfig
from icemirror.settings import Settings
from icemirror.settings.trigger import EmrServerlessLauncher, KubernetesLauncher, SqliteState
from icemirror.settings.trigger import LocalLauncher as LocalLauncherSettings
from icemirror.state.configured import policy_of
from icemirror.state.store import Store
from icemirror.telemetry.metrics import Metrics
from trigger.fleet import Fleet
from trigger.launchers.job_arguments import job_arguments
from trigger.launchers.launcher import Launcher
from trigger.launchers.local import LocalLauncher
from trigger.registry import Registry


def build_fleet(settings: Settings, store: Store, metrics: Metrics, environ: Mapping[str, str]) -> Fleet:
    """The fleet of a configuration."""
    return Fleet(
        registry=Registry(settings),
        store=store,
        policy=policy_of(settings),
        launcher=open_launcher(settings, environ),
        config=str(settings.source_path.absolute()),
        metrics=metrics,
    )


def open_launcher(settings: Settings, environ: Mapping[str, str]) -> Launcher:
    """The launcher of `trigger.launcher`."""
    match launcher := settings.trigger.launcher:
        case LocalLauncherSettings():
            state = settings.trigger.state
            if not isinstance(state, SqliteState):
                # A run is known by its process, which a trigger on another machine would take for gone.
                raise BadConfig("trigger.launcher: local needs trigger.state of type sqlite in this version")
            return LocalLauncher(state.path.parent, environ)
        case EmrServerlessLauncher():
            from trigger.launchers import emr_request, emr_serverless

            job = job_arguments(settings, environ, launcher.secrets, emr_request.PREFIX)
            return emr_serverless.open_emr_serverless(launcher, job)
        case KubernetesLauncher():
            from trigger.launchers import kubernetes, spark_application

            job = job_arguments(settings, environ, launcher.secrets, spark_application.PREFIX)
            return kubernetes.open_kubernetes(launcher, job)
    assert_never(launcher)
