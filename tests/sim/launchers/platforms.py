"""Simulated platforms that queue, start and lose jobs at any time, and report their end late."""

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
class SimulatedRun:
    """A run as the platform sees it."""

    process: Process | None = None
    never_starts: bool = False


class Platform(ABC):
    """The common part of all platforms. `start` starts the process of a job."""

    def __init__(self, schedule: Schedule, start: Start) -> None:
        self.schedule, self.start = schedule, start
        self.simulated: dict[str, SimulatedRun] = {}
        self.deleted: Counter[str] = Counter()  # names of runs that a user deleted completely

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
        """Return queued, running, ending (cancelled, but may be alive) or ended."""

    @abstractmethod
    def set(self, run_id: str, state: str) -> None:
        """Set the state: queued, running, good, bad."""

    @abstractmethod
    def fail_next_call(self, kind: str) -> None:
        """Make the next call fail: lost, throttled, failed."""

    @abstractmethod
    def job_input(self, run_id: str) -> tuple[list[str], dict[str, str]]:
        """Return the arguments and environment of the job."""

    @abstractmethod
    def cancel_as_user(self, run_id: str) -> None:
        """Cancel a run as a user."""

    def living(self) -> list[str]:
        """Return the runs that have not ended."""
        return [run_id for run_id in self.runs() if self.state(run_id) != "ended"]

    def alive(self, run_id: str) -> bool:
        """Return whether the run has a live process."""
        process = self.simulated.setdefault(run_id, SimulatedRun()).process
        return process is not None and process.alive

    def step(self) -> None:
        """Advance one run that has not ended."""
        living = self.living()
        if not living:
            return
        run_id = self.schedule.random.choice(living)
        run, state = self.simulated.setdefault(run_id, SimulatedRun()), self.state(run_id)
        if state == "ending":
            if run.process is not None and run.process.alive:
                self.schedule.kill(run.process)
            self.set(run_id, "bad")
        elif state == "queued" and not run.never_starts:
            arguments, environ = self.job_input(run_id)
            run.process = self.start(run_id, arguments, environ)
            self.set(run_id, "running")
        elif state == "running" and run.process is not None and not run.process.alive:
            self.set(run_id, "good" if not run.process.doomed else "bad")


class OnEmr(Platform):
    """EMR Serverless. `exposes_run_id`: the job's environment contains its run id."""

    def __init__(self, schedule: Schedule, start: Start, folder: Path, *, exposes_run_id: bool) -> None:
        super().__init__(schedule, start)
        self.emr = FakeEmr(schedule.clock)
        self.emr.pause = lambda _: schedule.pause()
        settings, self.job = for_emr(folder)
        self.settings = settings.model_copy(update={"start_timeout": START_TIMEOUT})
        self.exposes_run_id = exposes_run_id

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

    def fail_next_call(self, kind: str) -> None:
        codes = {"lost": "lost", "throttled": "ThrottlingException", "failed": "InternalServerException"}
        self.emr.faults = [codes[kind]]

    def job_input(self, run_id: str) -> tuple[list[str], dict[str, str]]:
        run = self.emr.runs[run_id]
        return run.arguments, run.environ if self.exposes_run_id else {}

    def cancel_as_user(self, run_id: str) -> None:
        self.emr.runs[run_id].state = "CANCELLING"


class OnKubernetes(Platform):
    """Kubeflow's operator. The pods of a deleted object end later."""

    def __init__(self, schedule: Schedule, start: Start, folder: Path) -> None:
        super().__init__(schedule, start)
        self.api = FakeKubernetes(schedule.clock)
        self.api.pause = lambda _: schedule.pause()
        settings, self.job = for_kubernetes(folder)
        self.settings = settings.model_copy(update={"start_timeout": START_TIMEOUT})
        self.client = self.api.client()
        self.ended: set[str] = set()

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
            return "ended" if run_id in self.ended else "ending"
        status = self.api.objects[run_id].get("status")
        words = {"RUNNING": "running", "COMPLETED": "ended", "FAILED": "ended"}
        return words[status["applicationState"]["state"]] if status else "queued"

    def set(self, run_id: str, state: str) -> None:
        if run_id not in self.api.objects:
            self.ended.add(run_id)
        else:
            words = {"running": "RUNNING", "good": "COMPLETED", "bad": "FAILED"}
            self.api.set_state(run_id, words[state])

    def fail_next_call(self, kind: str) -> None:
        faults = {"lost": Fault(0), "throttled": Fault(429, "slow down"), "failed": Fault(500, "etcd")}
        self.api.faults = [faults[kind]]

    def job_input(self, run_id: str) -> tuple[list[str], dict[str, str]]:
        arguments: list[str] = self.api.objects[run_id]["spec"]["arguments"]
        return arguments, {}

    def cancel_as_user(self, run_id: str) -> None:
        if self.api.objects.pop(run_id, None) is not None:
            self.deleted[run_id] += 1
