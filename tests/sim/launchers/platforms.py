"""A platform that queues, starts and loses jobs at its own pace, and reports their end late."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lightkube.generic_resource import create_namespaced_resource

from tests.platforms.fake_emr import FakeEmr
from tests.platforms.fake_kubernetes import FakeKubernetes, Fault
from tests.sim.launchers.schedule import Process, Schedule
from tests.unit.trigger.launchers.launcher_settings import for_emr, for_kubernetes
from trigger.launchers.emr_serverless import EmrServerlessLauncher
from trigger.launchers.kubernetes import KubernetesLauncher
from trigger.launchers.launcher import Launcher

START_TIMEOUT = 120.0
Start = Callable[[str, list[str], dict[str, str]], Process]
"""Run id, arguments, environment → the job's process."""


@dataclass
class Ran:
    """A run as the platform sees it."""

    process: Process | None = None
    stuck: bool = False


class Platform(ABC):
    """The common part of all platforms. `start` starts the process of a job."""

    def __init__(self, schedule: Schedule, start: Start) -> None:
        self.schedule, self.start = schedule, start
        self.ran: dict[str, Ran] = {}
        self.forgotten: Counter[str] = Counter()  # names of runs that a user deleted without trace

    @abstractmethod
    def launcher(self) -> Launcher:
        """Return the launcher of one more trigger."""

    @abstractmethod
    def runs(self) -> list[str]:
        """Return all runs that were ever accepted."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all runs, derived from their tokens."""

    @abstractmethod
    def state(self, run_id: str) -> str:
        """queued, running, ending (cancelled, but may live), ended."""

    @abstractmethod
    def set(self, run_id: str, state: str) -> None:
        """Set the state: queued, running, good, bad."""

    @abstractmethod
    def befall(self, kind: str) -> None:
        """Make the next call fail: lost, throttled, failed."""

    @abstractmethod
    def job_input(self, run_id: str) -> tuple[list[str], dict[str, str]]:
        """Return the arguments and environment of the job."""

    @abstractmethod
    def cancel_by_hand(self, run_id: str) -> None:
        """End a run, as a user would."""

    def living(self) -> list[str]:
        """Runs that have not ended."""
        return [run_id for run_id in self.runs() if self.state(run_id) != "ended"]

    def alive(self, run_id: str) -> bool:
        """Whether the run has a live process."""
        process = self.ran.setdefault(run_id, Ran()).process
        return process is not None and process.alive

    def step(self) -> None:
        """Advance one run that has not ended."""
        living = self.living()
        if not living:
            return
        run_id = self.schedule.random.choice(living)
        ran, state = self.ran.setdefault(run_id, Ran()), self.state(run_id)
        if state == "ending":
            if ran.process is not None and ran.process.alive:
                self.schedule.kill(ran.process)
            self.set(run_id, "bad")
        elif state == "queued" and not ran.stuck:
            arguments, environ = self.job_input(run_id)
            ran.process = self.start(run_id, arguments, environ)
            self.set(run_id, "running")
        elif state == "running" and ran.process is not None and not ran.process.alive:
            self.set(run_id, "good" if not ran.process.doomed else "bad")


class OnEmr(Platform):
    """EMR Serverless. `tells_id`: the job finds its run's id in its environment."""

    def __init__(self, schedule: Schedule, start: Start, folder: Path, *, tells_id: bool) -> None:
        super().__init__(schedule, start)
        self.emr = FakeEmr(schedule.clock)
        self.emr.pause = lambda _: schedule.pause()
        settings, self.job = for_emr(folder)
        self.settings = settings.model_copy(update={"start_timeout": START_TIMEOUT})
        self.tells_id = tells_id

    def launcher(self) -> Launcher:
        return EmrServerlessLauncher(self.emr, self.settings, self.job, self.schedule.clock)

    def runs(self) -> list[str]:
        return list(self.emr.runs)

    def names(self) -> list[str]:
        return [run.request["name"] for run in self.emr.runs.values()]

    def state(self, run_id: str) -> str:
        words = {"SUBMITTED": "queued", "RUNNING": "running", "CANCELLING": "ending"}
        return words.get(self.emr.runs[run_id].state, "ended")

    def set(self, run_id: str, state: str) -> None:
        words = {"queued": "SUBMITTED", "running": "RUNNING", "good": "SUCCESS", "bad": "FAILED"}
        self.emr.runs[run_id].state = words[state]

    def befall(self, kind: str) -> None:
        codes = {"lost": "lost", "throttled": "ThrottlingException", "failed": "InternalServerException"}
        self.emr.faults = [codes[kind]]

    def job_input(self, run_id: str) -> tuple[list[str], dict[str, str]]:
        run = self.emr.runs[run_id]
        return run.arguments, run.environ if self.tells_id else {}

    def cancel_by_hand(self, run_id: str) -> None:
        self.emr.runs[run_id].state = "CANCELLING"


class OnKubernetes(Platform):
    """Kubeflow's operator. A deleted object's pods end somewhat later."""

    def __init__(self, schedule: Schedule, start: Start, folder: Path) -> None:
        super().__init__(schedule, start)
        self.api = FakeKubernetes(schedule.clock)
        self.api.pause = lambda _: schedule.pause()
        settings, self.job = for_kubernetes(folder)
        self.settings = settings.model_copy(update={"start_timeout": START_TIMEOUT})
        self.client = self.api.client()
        self.over: set[str] = set()

    def launcher(self) -> Launcher:
        resource = create_namespaced_resource(
            "sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications"
        )
        return KubernetesLauncher(self.client, resource, self.settings, self.job, self.schedule.clock)

    def runs(self) -> list[str]:
        return list(dict.fromkeys(self.names()))

    def names(self) -> list[str]:
        return [created["metadata"]["name"] for created in self.api.created]

    def state(self, run_id: str) -> str:
        if run_id not in self.api.objects:
            return "ended" if run_id in self.over else "ending"
        status = self.api.objects[run_id].get("status")
        words = {"RUNNING": "running", "COMPLETED": "ended", "FAILED": "ended"}
        return words[status["applicationState"]["state"]] if status else "queued"

    def set(self, run_id: str, state: str) -> None:
        if run_id not in self.api.objects:
            self.over.add(run_id)
        else:
            words = {"running": "RUNNING", "good": "COMPLETED", "bad": "FAILED"}
            self.api.set_state(run_id, words[state])

    def befall(self, kind: str) -> None:
        faults = {"lost": Fault(0), "throttled": Fault(429, "slow down"), "failed": Fault(500, "etcd")}
        self.api.faults = [faults[kind]]

    def job_input(self, run_id: str) -> tuple[list[str], dict[str, str]]:
        arguments: list[str] = self.api.objects[run_id]["spec"]["arguments"]
        return arguments, {}

    def cancel_by_hand(self, run_id: str) -> None:
        if self.api.objects.pop(run_id, None) is not None:
            self.forgotten[run_id] += 1
