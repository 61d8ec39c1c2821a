"""The store and the policy of a configuration; the trigger and its workers share them."""

from __future__ import annotations

from typing import assert_never

from icemirror.protocol.policy import Policy
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Rows
from icemirror.settings import Settings
from icemirror.settings.trigger import DynamoDbState, KubernetesState, SqliteState
from icemirror.stores.dead_letters import DeadLetter
from icemirror.stores.sqlite import SqliteStore
from icemirror.stores.store import Store

# How long a launch call may take before it is repeated with the same token.
_LAUNCH_LEASE_SECONDS = {"local": 5.0, "emr-serverless": 60.0, "kubernetes": 30.0}

# Between two rechecks `watch` must see its tables as current, or `--until-idle` would never end.
_POLLS_PER_RECHECK = 5


def open_store(settings: Settings, *, read_only: bool = False) -> Store:
    """Open the store of `trigger.state`. With `read_only` it need not be writable."""
    match state := settings.trigger.state:
        case SqliteState():
            return SqliteStore(state.path, read_only=read_only)
        case DynamoDbState():
            from icemirror.stores.dynamodb import open_dynamodb  # boto3 is optional and slow to import

            return open_dynamodb(state)
        case KubernetesState():
            from icemirror.stores.kubernetes import open_kubernetes_store  # the same for lightkube

            return open_kubernetes_store(state)
    assert_never(state)


def read_rows(settings: Settings) -> Rows:
    """Return all rows; none if there is no state yet, which is then not created."""
    if _is_new(settings):
        return Rows({}, {})
    with open_store(settings, read_only=True) as store:
        return store.load(ALL_ROWS)


def read_letters(settings: Settings) -> tuple[DeadLetter, ...]:
    """Return the dead letters, oldest first; none if there is no state yet, which is then not created."""
    if _is_new(settings):
        return ()
    with open_store(settings, read_only=True) as store:
        return store.letters()


def _is_new(settings: Settings) -> bool:
    """Return whether opening the state would create it."""
    state = settings.trigger.state
    return isinstance(state, SqliteState) and not (state.path.exists() and state.path.stat().st_size)


def build_policy(settings: Settings) -> Policy:
    """Return the protocol's wait times, limits and number of slots."""
    trigger = settings.trigger
    return Policy(
        slots=trigger.max_concurrent_jobs,
        lease_seconds=trigger.lease,
        launch_lease_seconds=min(_LAUNCH_LEASE_SECONDS[trigger.launcher.type], trigger.lease),
        max_failures=trigger.max_failures,
        quiet_seconds=trigger.quiet_period,
        max_wait_seconds=trigger.max_wait,
        scale_out_seconds=trigger.max_wait,
        probation_seconds=settings.merge_interval,
        recheck_seconds=max(settings.merge_interval, _POLLS_PER_RECHECK * trigger.poll_interval),
    )
