"""What every launcher does, whatever it launches on, with the faults that befall it.

A platform is played by a `Platform`: its test says what becomes of runs, as an operator of it would see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.run_request import RunRequest
from icemirror.state.events import RunState
from trigger.launchers.launcher import Launcher

REQUEST = RunRequest(group="default", slot=0, gen=1_763_330_000_000, config="/etc/icemirror.yaml")
NEXT = REQUEST.model_copy(update={"gen": REQUEST.gen + 1})


class Platform(ABC):
    """Where jobs run."""

    @abstractmethod
    def launcher(self) -> Launcher:
        """That of another trigger process."""

    @abstractmethod
    def begun(self) -> list[list[str]]:
        """The arguments of every run that was ever started, oldest first."""

    @abstractmethod
    def begin(self, run_id: str) -> None:
        """The job gets to run."""

    @abstractmethod
    def end(self, run_id: str) -> None:
        """The job ends by itself."""

    @abstractmethod
    def kill(self, run_id: str) -> None:
        """A person, or a failure, ends the run."""

    @abstractmethod
    def wait_for(self, what: Callable[[], bool]) -> None:
        """Until it is so; a fake platform need not wait."""

    def poll(self, run_id: str) -> RunState:
        """What another trigger hears of the run."""
        return self.launcher().poll(run_id)


class LauncherSuite:
    """For subclasses that have a fixture `platform`."""

    def test_a_token_is_launched_once_by_whoever_asks(self, platform: Platform) -> None:
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

    def test_the_job_is_told_its_request(self, platform: Platform) -> None:
        platform.launcher().launch(REQUEST)
        platform.wait_for(lambda: len(platform.begun()) == 1)
        (arguments,) = platform.begun()
        assert RunRequest.model_validate_json(arguments[arguments.index("--request") + 1]) == REQUEST

    def test_a_run_that_runs_is_running_until_it_ends_unseen(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.begin(run_id)
        assert platform.poll(run_id) is RunState.RUNNING
        platform.end(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.GONE)

    def test_a_token_that_ran_is_not_launched_again(self, platform: Platform) -> None:
        launcher = platform.launcher()
        run_id = launcher.launch(REQUEST)
        platform.begin(run_id)
        platform.end(run_id)
        assert launcher.launch(REQUEST) == platform.launcher().launch(REQUEST) == run_id
        assert len(platform.begun()) == 1

    def test_a_run_that_dies_at_its_start_is_gone(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.kill(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.GONE)

    def test_a_run_that_was_ended_by_hand_is_gone(self, platform: Platform) -> None:
        run_id = platform.launcher().launch(REQUEST)
        platform.begin(run_id)
        platform.kill(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.GONE)

    def test_a_run_that_hangs_is_ended_and_ending_it_again_does_nothing(self, platform: Platform) -> None:
        launcher = platform.launcher()
        run_id = launcher.launch(REQUEST)
        platform.begin(run_id)
        launcher.cancel(run_id)
        platform.wait_for(lambda: platform.poll(run_id) is RunState.GONE)
        launcher.cancel(run_id)

    @pytest.mark.parametrize("run_id", ["00fneverheard", "icemirror-x-0-1-abcdef", "12345@67890", "x"])
    def test_a_run_that_was_never_heard_of_is_gone(self, platform: Platform, run_id: str) -> None:
        launcher = platform.launcher()
        assert launcher.poll(run_id) is RunState.GONE
        launcher.cancel(run_id)

    def test_a_message_says_where_the_output_of_a_run_is(self, platform: Platform) -> None:
        launcher = platform.launcher()
        assert launcher.log_of(launcher.launch(REQUEST)) != ""


class RemotePlatform(Platform):
    """A platform that is asked over a network."""

    @abstractmethod
    def lose_answer(self) -> None:
        """The next call is carried out, but nobody hears of it."""

    @abstractmethod
    def throttle(self) -> None:
        """The next call is refused for being one too many."""

    @abstractmethod
    def forbid(self) -> None:
        """The next call is refused: no permission."""

    @abstractmethod
    def wait_in_queue(self, seconds: float) -> None:
        """Time passes, and the platform starts nothing."""


class RemoteSuite(LauncherSuite):
    """For platforms that are asked over a network: answers are lost, calls refused, runs queued."""

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

    def test_a_call_without_permission_says_what_is_needed(self, platform: RemotePlatform) -> None:
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
        assert platform.poll(run_id) is RunState.GONE
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
