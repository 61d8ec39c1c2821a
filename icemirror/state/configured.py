"""The store and the policy that a configuration asks for; the trigger and its workers must agree on both."""

from __future__ import annotations

from typing import assert_never

from icemirror.settings import Settings
from icemirror.settings.trigger import DynamoDbState, KubernetesState, SqliteState
from icemirror.state.letters import Letter
from icemirror.state.policy import Policy
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Rows
from icemirror.state.sqlite import SqliteStore
from icemirror.state.store import Store

# How long a call of the launcher may take, before it is repeated with the same token.
_LAUNCH_SECONDS = {"local": 5.0, "emr-serverless": 60.0, "kubernetes": 30.0}

# A watch sees tables current between two rechecks, or `--until-idle` would never end.
_LOOKS_PER_RECHECK = 5


def open_store(settings: Settings, *, read_only: bool = False) -> Store:
    """The store of `trigger.state`; one that is only read need not be writable."""
    match state := settings.trigger.state:
        case SqliteState():
            return SqliteStore(state.path, read_only=read_only)
        case DynamoDbState():
            from icemirror.state.dynamodb import open_dynamodb  # boto3 is slow to load, and not always there

            return open_dynamodb(state)
        case KubernetesState():
            from icemirror.state.kubernetes import open_kubernetes  # as above, of lightkube

            return open_kubernetes(state)
    assert_never(state)


def read_rows(settings: Settings) -> Rows:
    """The rows as they are; none, and none are made, where there is no state yet."""
    if _is_new(settings):
        return Rows({}, {})
    with open_store(settings, read_only=True) as store:
        return store.load(EVERYTHING)


def read_letters(settings: Settings) -> tuple[Letter, ...]:
    """The dead letters, the oldest first; where there is no state yet, none is made."""
    if _is_new(settings):
        return ()
    with open_store(settings, read_only=True) as store:
        return store.letters()


def _is_new(settings: Settings) -> bool:
    """Opening the state would make it."""
    state = settings.trigger.state
    return isinstance(state, SqliteState) and not (state.path.exists() and state.path.stat().st_size)


def policy_of(settings: Settings) -> Policy:
    """The numbers of the protocol."""
    trigger = settings.trigger
    return Policy(
        slots=trigger.max_concurrent_jobs,
        lease_seconds=trigger.lease,
        launch_lease_seconds=min(_LAUNCH_SECONDS[trigger.launcher.type], trigger.lease),
        max_failures=trigger.max_failures,
        quiet_seconds=trigger.quiet_period,
        max_wait_seconds=trigger.max_wait,
        scale_out_seconds=trigger.max_wait,
        probation_seconds=settings.merge_interval,
        recheck_seconds=max(settings.merge_interval, _LOOKS_PER_RECHECK * trigger.poll_interval),
    )
