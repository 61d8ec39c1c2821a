"""The conformance suite of launchers, with the faults of their platforms.

A `Platform` controls the platform for a test, which decides what happens to runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest
from trigger.launchers.launcher import Launcher

REQUEST = RunRequest(group="default", slot=0, gen=1_763_330_000_000, config="/etc/icemirror.yaml")
NEXT = REQUEST.model_copy(update={"gen": REQUEST.gen + 1})


class Platform(ABC):
    """A platform that runs jobs."""

    @abstractmethod
    def launcher(self) -> Launcher:
        """Return the launcher of another trigger process."""

    @abstractmethod
    def started(self) -> list[list[str]]:
        """Return the arguments of every started run, oldest first."""

    @abstractmethod
    def start(self, run_id: str) -> None:
        """Let the job run."""

    @abstractmethod
    def end(self, run_id: str) -> None:
        """Let the job end."""

    @abstractmethod
    def kill(self, run_id: str) -> None:
        """End the run, as a user or a failure would."""

    @abstractmethod
    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; a fake platform need not wait."""

    def poll(self, run_id: str) -> RunState:
        """Return the state of the run that another trigger gets."""
        return self.launcher().poll(run_id)


class LauncherSuite:
    """For subclasses that have a fixture `platform`."""

    def test_token_is_launched_once_by_any_number_of_triggers(self, platform: Platform) -> None:
        first, second = platform.launcher(), platform.launcher()
        run_id = first.launch(REQUEST)
        assert first.launch(REQUEST) == second.launch(REQUEST) == run_id
        assert first.find(REQUEST.token) == second.find(REQUEST.token) == run_id
        platform.wait_for(lambda: len(platform.started()) == 1)

    def test_another_generation_is_another_run(self, platform: Platform) -> None:
        launcher = platform.launcher()
        first = launcher.launch(REQUEST)
        assert launcher.find(NEXT.token) is None
        assert launcher.launch(NEXT) != first
        platform.wait_for(lambda: len(platform.started()) == 2)

    def test_job_receives_its_request(self, platform: Platform) -> None:
        platform.launcher().launch(REQUEST)
        platform.wait_for(lambda: len(platform.started()) == 1)
        (arguments,) = platform.started()
        assert RunRequest.model_validate_json(arguments[arguments.index("--request") + 1]) == REQUEST

    def test_run_is_running_until_it_ends(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.start(run_id)
        assert platform.poll(run_id) is RunState.RUNNING
        platform.end(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.ENDED)

    def test_token_of_an_ended_run_is_not_launched_again(self, platform: Platform) -> None:
        launcher = platform.launcher()
        run_id = launcher.launch(REQUEST)
        platform.start(run_id)
        platform.end(run_id)
        assert launcher.launch(REQUEST) == platform.launcher().launch(REQUEST) == run_id
        assert len(platform.started()) == 1

    def test_run_that_dies_at_start_has_ended(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.kill(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.ENDED)

    def test_run_killed_by_a_user_has_ended(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.start(run_id)
        platform.kill(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.ENDED)

    def test_hanging_run_can_be_cancelled_twice(self, platform: Platform) -> None:
        launcher = platform.launcher()
        run_id = launcher.launch(REQUEST)
        platform.start(run_id)
        launcher.cancel(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.ENDED)
        launcher.cancel(run_id)

    @pytest.mark.parametrize("run_id", ["00fneverheard", "icemirror-x-0-1-abcdef", "12345@67890", "x"])
    def test_unknown_run_has_ended(self, platform: Platform, run_id: str) -> None:
        launcher = platform.launcher()
        assert launcher.poll(run_id) is RunState.ENDED
        launcher.cancel(run_id)

    def test_run_has_a_log_location(self, platform: Platform) -> None:
        launcher = platform.launcher()
        assert launcher.log_location(launcher.launch(REQUEST)) != ""


class RemotePlatform(Platform):
    """A platform behind a network."""

    @abstractmethod
    def lose_response(self) -> None:
        """Execute the next call, but lose its response."""

    @abstractmethod
    def throttle(self) -> None:
        """Refuse the next call because of throttling."""

    @abstractmethod
    def forbid(self) -> None:
        """Refuse the next call because of missing permission."""

    @abstractmethod
    def wait_in_queue(self, seconds: float) -> None:
        """Let time pass without starting runs."""


class RemoteSuite(LauncherSuite):
    """The suite for platforms behind a network: lost responses, refused calls, queued runs."""

    def test_launch_with_a_lost_response_is_found_and_not_repeated(self, platform: RemotePlatform) -> None:
        platform.lose_response()
        with pytest.raises(Transient):
            platform.launcher().launch(REQUEST)
        later = platform.launcher()
        run_id = later.find(REQUEST.token)
        assert run_id is not None
        assert later.launch(REQUEST) == run_id
        assert len(platform.started()) == 1

    @pytest.mark.parametrize("fault", ["throttle", "lose_response"])
    def test_temporary_fault_is_transient_in_every_call(self, platform: RemotePlatform, fault: str) -> None:
        launcher = platform.launcher()
        run_id = launcher.launch(REQUEST)
        calls: list[Callable[[], object]] = [
            lambda: launcher.launch(NEXT),
            lambda: launcher.find(REQUEST.token),
            lambda: launcher.poll(run_id),
            lambda: launcher.cancel(run_id),
        ]
        for call in calls:
            getattr(platform, fault)()
            with pytest.raises(Transient):
                call()
        assert launcher.poll(run_id) is not RunState.UNKNOWN

    def test_call_without_permission_names_the_required_permissions(self, platform: RemotePlatform) -> None:
        platform.forbid()
        with pytest.raises(Invalid, match=r"iam:PassRole|infra/kubernetes/base"):
            platform.launcher().launch(REQUEST)
        assert platform.started() == []

    def test_waiting_run_is_queued_and_ends_if_it_never_starts(self, platform: RemotePlatform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        assert platform.poll(run_id) is RunState.QUEUED
        platform.wait_in_queue(3600)
        assert platform.poll(run_id) is RunState.QUEUED
        platform.wait_in_queue(6 * 3600)
        assert platform.poll(run_id) is RunState.ENDED
        assert platform.launcher().launch(NEXT) != run_id

    def test_different_tokens_have_different_names(self, platform: RemotePlatform) -> None:
        launcher = platform.launcher()
        groups = [
            "default",
            "Default",
            "a b",
            "a/b",
            "a-b",
            "ä",
            "a-very-long-group-name-1",
            "a-very-long-group-name-2",
        ]
        requests = [REQUEST.model_copy(update={"group": group}) for group in groups]
        runs = [launcher.launch(request) for request in requests]
        assert len(set(runs)) == len(groups)
        assert [launcher.find(request.token) for request in requests] == runs
