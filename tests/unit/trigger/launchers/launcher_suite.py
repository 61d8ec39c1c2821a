"""The conformance suite of launchers, with the faults of their platforms.

A `Platform` plays the platform: the test decides what happens to runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.processes.run_request import RunRequest
from icemirror.protocol.events import RunState
from trigger.launchers.launcher import Launcher

REQUEST = RunRequest(group="default", slot=0, gen=1_763_330_000_000, config="/etc/icemirror.yaml")
NEXT = REQUEST.model_copy(update={"gen": REQUEST.gen + 1})


class Platform(ABC):
    """A platform that runs jobs."""

    @abstractmethod
    def launcher(self) -> Launcher:
        """Return the launcher of another trigger process."""

    @abstractmethod
    def begun(self) -> list[list[str]]:
        """Return the arguments of every started run, oldest first."""

    @abstractmethod
    def begin(self, run_id: str) -> None:
        """Let the job run."""

    @abstractmethod
    def end(self, run_id: str) -> None:
        """Let the job end."""

    @abstractmethod
    def kill(self, run_id: str) -> None:
        """End the run, as a user or a failure would."""

    @abstractmethod
    def wait_for(self, what: Callable[[], bool]) -> None:
        """Wait until this is true; a fake platform need not wait."""

    def poll(self, run_id: str) -> RunState:
        """Return the state of the run that another trigger sees."""
        return self.launcher().poll(run_id)


class LauncherSuite:
    """For subclasses that have a fixture `platform`."""

    def test_token_is_launched_once_by_any_number_of_triggers(self, platform: Platform) -> None:
        one, other = platform.launcher(), platform.launcher()
        run_id = one.launch(REQUEST)
        assert one.launch(REQUEST) == other.launch(REQUEST) == run_id
        assert one.find(REQUEST.token) == other.find(REQUEST.token) == run_id
        platform.wait_for(lambda: len(platform.begun()) == 1)

    def test_another_generation_is_another_run(self, platform: Platform) -> None:
        launcher = platform.launcher()
        first = launcher.launch(REQUEST)
        assert launcher.find(NEXT.token) is None
        assert launcher.launch(NEXT) != first
        platform.wait_for(lambda: len(platform.begun()) == 2)

    def test_job_receives_its_request(self, platform: Platform) -> None:
        platform.launcher().launch(REQUEST)
        platform.wait_for(lambda: len(platform.begun()) == 1)
        (arguments,) = platform.begun()
        assert RunRequest.model_validate_json(arguments[arguments.index("--request") + 1]) == REQUEST

    def test_a_run_that_runs_is_running_until_it_ends_unseen(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.begin(run_id)
        assert platform.poll(run_id) is RunState.RUNNING
        platform.end(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.ENDED)

    def test_a_token_that_ran_is_not_launched_again(self, platform: Platform) -> None:
        launcher = platform.launcher()
        run_id = launcher.launch(REQUEST)
        platform.begin(run_id)
        platform.end(run_id)
        assert launcher.launch(REQUEST) == platform.launcher().launch(REQUEST) == run_id
        assert len(platform.begun()) == 1

    def test_run_that_dies_at_start_is_gone(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.kill(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.ENDED)

    def test_run_that_a_user_ended_is_gone(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.begin(run_id)
        platform.kill(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.ENDED)

    def test_a_run_that_hangs_is_ended_and_ending_it_again_does_nothing(self, platform: Platform) -> None:
        launcher = platform.launcher()
        run_id = launcher.launch(REQUEST)
        platform.begin(run_id)
        launcher.cancel(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.ENDED)
        launcher.cancel(run_id)

    @pytest.mark.parametrize("run_id", ["00fneverheard", "icemirror-x-0-1-abcdef", "12345@67890", "x"])
    def test_unknown_run_is_gone(self, platform: Platform, run_id: str) -> None:
        launcher = platform.launcher()
        assert launcher.poll(run_id) is RunState.ENDED
        launcher.cancel(run_id)

    def test_log_location_of_a_run_is_known(self, platform: Platform) -> None:
        launcher = platform.launcher()
        assert launcher.log_location(launcher.launch(REQUEST)) != ""


class RemotePlatform(Platform):
    """A platform behind a network."""

    @abstractmethod
    def lose_answer(self) -> None:
        """Carry out the next call, but lose its answer."""

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
    """The suite for platforms behind a network: lost answers, refused calls, queued runs."""

    def test_a_launch_whose_answer_is_lost_is_found_and_not_repeated(self, platform: RemotePlatform) -> None:
        platform.lose_answer()
        with pytest.raises(Transient):
            platform.launcher().launch(REQUEST)
        later = platform.launcher()
        run_id = later.find(REQUEST.token)
        assert run_id is not None
        assert later.launch(REQUEST) == run_id
        assert len(platform.begun()) == 1

    @pytest.mark.parametrize("trouble", ["throttle", "lose_answer"])
    def test_trouble_that_passes_is_transient_whatever_is_asked(
        self, platform: RemotePlatform, trouble: str
    ) -> None:
        launcher = platform.launcher()
        run_id = launcher.launch(REQUEST)
        asks: list[Callable[[], object]] = [
            lambda: launcher.launch(NEXT),
            lambda: launcher.find(REQUEST.token),
            lambda: launcher.poll(run_id),
            lambda: launcher.cancel(run_id),
        ]
        for ask in asks:
            getattr(platform, trouble)()
            with pytest.raises(Transient):
                ask()
        assert launcher.poll(run_id) is not RunState.UNKNOWN

    def test_call_without_permission_names_the_required_permissions(self, platform: RemotePlatform) -> None:
        platform.forbid()
        with pytest.raises(Invalid, match=r"iam:PassRole|infra/kubernetes/base"):
            platform.launcher().launch(REQUEST)
        assert platform.begun() == []

    def test_a_run_that_waits_is_queued_and_given_up_when_it_never_starts(
        self, platform: RemotePlatform
    ) -> None:
        run_id = platform.launcher().launch(REQUEST)
        assert platform.poll(run_id) is RunState.QUEUED
        platform.wait_in_queue(3600)
        assert platform.poll(run_id) is RunState.QUEUED
        platform.wait_in_queue(6 * 3600)
        assert platform.poll(run_id) is RunState.ENDED
        assert platform.launcher().launch(NEXT) != run_id

    def test_no_two_tokens_share_a_name(self, platform: RemotePlatform) -> None:
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
