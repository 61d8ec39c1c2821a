"""EMR Serverless: the suite on a fake that validates requests like AWS, and tests specific to EMR."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError

from icemirror.config_file.packing import unpack_arguments
from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest
from spark_job.worker.run_arguments import read_arguments
from tests.platforms.fake_emr import APPLICATION, FakeEmr
from tests.unit.trigger.launchers.launcher_settings import EMR, ENVIRON, for_emr, load
from tests.unit.trigger.launchers.launcher_suite import NEXT, REQUEST, RemotePlatform, RemoteSuite
from trigger.launchers.emr_request import spark_properties
from trigger.launchers.emr_serverless import EmrServerlessLauncher, open_emr_serverless
from trigger.wiring import open_launcher


class EmrPlatform(RemotePlatform):
    """An application, and launchers that use it."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_763_330_000.0
        self.emr = FakeEmr(lambda: self.now)
        self.settings, self.job = for_emr(folder)

    def launcher(self) -> EmrServerlessLauncher:
        return EmrServerlessLauncher(self.emr, self.settings, self.job, lambda: self.now)

    def started(self) -> list[list[str]]:
        return [run.arguments for run in self.emr.runs.values()]

    def start(self, run_id: str) -> None:
        self.emr.runs[run_id].state = "RUNNING"

    def end(self, run_id: str) -> None:
        self.emr.runs[run_id].state = "SUCCESS"

    def kill(self, run_id: str) -> None:
        run = self.emr.runs[run_id]
        run.state = "CANCELLED" if run.state == "RUNNING" else "FAILED"

    def wait_for(self, condition: Callable[[], bool]) -> None:
        assert condition()

    def lose_response(self) -> None:
        self.emr.faults.append("lost")

    def throttle(self) -> None:
        self.emr.faults.append("ThrottlingException")

    def forbid(self) -> None:
        self.emr.faults.append("AccessDeniedException")

    def wait_in_queue(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def platform(tmp_path: Path) -> EmrPlatform:
    return EmrPlatform(tmp_path)


class TestEmrServerless(RemoteSuite):
    pass


def test_states_of_runs_that_are_no_longer_polled_are_dropped(platform: EmrPlatform) -> None:
    launcher = platform.launcher()
    for gen in range(1, 21):
        run_id = launcher.launch(RunRequest(group="default", slot=0, gen=gen, config=REQUEST.config))
        platform.start(run_id)
        assert launcher.poll(run_id) is RunState.RUNNING
        platform.now += 3600.0  # the run leaves its slot and is not polled again
    assert len(launcher._polls) == 1


def test_missing_credentials_are_invalid(platform: EmrPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise NoCredentialsError

    monkeypatch.setattr(platform.emr, "start_job_run", fail)
    with pytest.raises(Invalid, match="Check the credentials"):
        platform.launcher().launch(NEXT)


def only_request(platform: EmrPlatform) -> dict[str, Any]:
    (run,) = platform.emr.runs.values()
    return run.request


def test_request_contains_every_setting(platform: EmrPlatform) -> None:
    platform.launcher().launch(REQUEST)
    request = only_request(platform)
    assert request["name"] == request["clientToken"] == platform.job.run_name(REQUEST.token)
    assert len(request["clientToken"]) <= 64
    assert request["executionTimeoutMinutes"] == 360
    assert request["retryPolicy"] == {"maxAttempts": 1}
    assert request["tags"]["team"] == "lake"
    assert request["jobDriver"]["sparkSubmit"]["entryPoint"] == "s3://code/icemirror_job.py"
    overrides = request["configurationOverrides"]
    assert "diskEncryptionConfiguration" not in overrides
    assert overrides["monitoringConfiguration"] == {"s3MonitoringConfiguration": {"logUri": "s3://logs/"}}
    ((defaults),) = overrides["applicationConfiguration"]
    assert defaults["classification"] == "spark-defaults"
    python = "./environment/bin/python"
    assert defaults["properties"] == {
        "spark.archives": "s3://code/environment.tar.gz#environment",
        "spark.driver.memory": "2g",
        "spark.executor.memory": "4g",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
        "spark.executorEnv.PYSPARK_PYTHON": python,
        "spark.emr-serverless.driverEnv.CATALOG_TOKEN": "EMR.secret@icemirror/catalog",
    }


@pytest.mark.parametrize(
    ("option", "python"),
    [("", "/opt/icemirror/venv/bin/python"), (", python: /opt/own/python", "/opt/own/python")],
)
def test_custom_image_gets_the_python_that_runs_the_job(option: str, python: str, tmp_path: Path) -> None:
    """EMR's documentation of custom images requires all three; the image's environment is not enough."""
    in_image = EMR.replace("archives: ['s3://code/environment.tar.gz'], ", "").replace(
        "'s3://code/icemirror_job.py'", f"'local:///opt/icemirror/icemirror_job.py'{option}"
    )
    settings, job = for_emr(tmp_path, in_image)
    properties = spark_properties(settings, job)
    assert "spark.archives" not in properties
    assert {name: value for name, value in properties.items() if "PYTHON" in name} == {
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
        "spark.executorEnv.PYSPARK_PYTHON": python,
    }


def test_job_stops_before_the_timeout_of_emr(platform: EmrPlatform) -> None:
    platform.launcher().launch(REQUEST)
    (run,) = platform.emr.runs.values()
    limit = 60 * run.request["executionTimeoutMinutes"]
    assert 0.8 * limit < read_arguments(run.arguments, {}).stop_after_seconds < 0.95 * limit


def test_secrets_are_not_in_the_request_but_in_the_environment_of_the_job(platform: EmrPlatform) -> None:
    platform.launcher().launch(REQUEST)
    (run,) = platform.emr.runs.values()
    arguments = read_arguments(run.arguments, run.environ)
    assert "t0ken" not in json.dumps(run.request) + unpack_arguments(arguments.config)
    settings = arguments.settings({"CATALOG_TOKEN": "t0ken"})
    assert settings.catalog_properties(None)["token"] == ENVIRON["CATALOG_TOKEN"]
    assert settings.catalog_properties(None)["warehouse"] == "s3://lake"
    assert settings.job.spark["spark.hadoop.fs.s3a.secret.key"] == "t0ken"
    with pytest.raises(BadConfig, match="CATALOG_TOKEN is not set"):
        arguments.settings({})


def test_run_id_of_a_job_is_the_one_of_emr_or_else_its_name(platform: EmrPlatform) -> None:
    run_id = platform.launcher().launch(REQUEST)
    (run,) = platform.emr.runs.values()
    assert read_arguments(run.arguments, run.environ).worker_id.run_id == run_id
    name = read_arguments(run.arguments, {}).worker_id.run_id
    assert name == run.request["name"]
    platform.start(run_id)
    assert platform.poll(name) is RunState.RUNNING, "polled by its name"
    platform.launcher().cancel(name)
    assert run.state == "CANCELLING"
    assert platform.poll(name) is platform.poll(run_id) is RunState.ENDED


@pytest.mark.parametrize(
    ("emr_state", "state"),
    [
        ("SUBMITTED", RunState.QUEUED),
        ("PENDING", RunState.QUEUED),
        ("SCHEDULED", RunState.QUEUED),
        ("QUEUED", RunState.QUEUED),
        ("RUNNING", RunState.RUNNING),
        ("SUCCESS", RunState.ENDED),
        ("FAILED", RunState.ENDED),
        ("CANCELLING", RunState.ENDED),
        ("CANCELLED", RunState.ENDED),
        ("A_WORD_OF_NEXT_YEAR", RunState.UNKNOWN),
    ],
)
def test_every_state_of_emr_is_mapped(platform: EmrPlatform, emr_state: str, state: RunState) -> None:
    run_id = platform.launcher().launch(REQUEST)
    platform.emr.runs[run_id].state = emr_state
    assert platform.poll(run_id) is state


def test_emr_is_polled_at_most_every_ten_seconds(platform: EmrPlatform) -> None:
    launcher = platform.launcher()
    run_id = launcher.launch(REQUEST)
    for _ in range(30):
        platform.now += 1
        launcher.poll(run_id)
    assert platform.emr.calls.count("GetJobRun") == 3
    platform.emr.runs[run_id].state = "FAILED"
    platform.now += 10
    assert [launcher.poll(run_id), launcher.poll(run_id)] == [RunState.ENDED] * 2


def test_run_is_found_among_many_but_not_among_those_of_last_week(platform: EmrPlatform) -> None:
    launcher = platform.launcher()
    run_id = launcher.launch(REQUEST)
    for gen in range(1, 140):
        launcher.launch(REQUEST.model_copy(update={"gen": gen}))
    assert launcher.find(REQUEST.token) == run_id
    assert platform.emr.calls.count("ListJobRuns") == 3
    platform.now += 7 * 24 * 3600
    assert launcher.find(REQUEST.token) is None


def test_living_run_is_found_if_a_token_has_two_runs(platform: EmrPlatform) -> None:
    first = platform.launcher().launch(REQUEST)
    platform.emr.forgets = True
    second = platform.launcher().launch(REQUEST)
    assert first != second
    platform.end(second)
    assert platform.launcher().find(REQUEST.token) == first


def test_token_used_by_another_release_returns_its_run(platform: EmrPlatform, tmp_path: Path) -> None:
    run_id = platform.launcher().launch(REQUEST)
    newer, job = for_emr(tmp_path, EMR.replace("environment.tar.gz", "environment-2.tar.gz"))
    assert EmrServerlessLauncher(platform.emr, newer, job, lambda: platform.now).launch(REQUEST) == run_id


@pytest.mark.parametrize(
    ("state", "kind"), [("STOPPED", Transient), ("STOPPING", Transient), ("TERMINATED", Invalid)]
)
def test_launch_on_a_stopped_application_can_be_retried(
    platform: EmrPlatform, state: str, kind: type[IcemirrorError]
) -> None:
    platform.emr.application = state
    with pytest.raises(kind, match=state):
        platform.launcher().launch(REQUEST)
    platform.emr.application = "STARTED"
    assert platform.launcher().launch(REQUEST)


def test_missing_application_is_reported(platform: EmrPlatform, tmp_path: Path) -> None:
    settings, job = for_emr(tmp_path, EMR.replace(APPLICATION, "00fother"))
    with pytest.raises(Invalid, match="no EMR Serverless application 00fother"):
        EmrServerlessLauncher(platform.emr, settings, job).launch(REQUEST)


def test_log_location_is_the_path_of_emr(platform: EmrPlatform, tmp_path: Path) -> None:
    launcher = platform.launcher()
    run_id = launcher.launch(REQUEST)
    expected = f"s3://logs/applications/{APPLICATION}/jobs/{run_id}/SPARK_DRIVER/stderr.gz"
    assert launcher.log_location(run_id) == expected
    settings, job = for_emr(tmp_path, EMR.replace("log_uri: 's3://logs/', ", ""))
    assert APPLICATION in EmrServerlessLauncher(platform.emr, settings, job).log_location(run_id)


def test_disks_are_encrypted_with_the_configured_key(platform: EmrPlatform, tmp_path: Path) -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/0000-1111"
    settings, job = for_emr(tmp_path, EMR.replace("tags:", f"disk_key_arn: '{key}', tags:"))
    EmrServerlessLauncher(platform.emr, settings, job).launch(REQUEST)
    overrides = only_request(platform)["configurationOverrides"]
    assert overrides["diskEncryptionConfiguration"] == {"encryptionKeyArn": key}
    with pytest.raises(BadConfig, match="not an alias"):
        for_emr(tmp_path, EMR.replace("tags:", "disk_key_arn: 'alias/lake', tags:"))


def test_logs_kept_by_emr_are_encrypted_with_the_configured_key(
    platform: EmrPlatform, tmp_path: Path
) -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/0000-1111"
    settings, job = for_emr(tmp_path, EMR.replace("tags:", f"log_key_arn: '{key}', tags:"))
    EmrServerlessLauncher(platform.emr, settings, job).launch(REQUEST)
    monitoring = only_request(platform)["configurationOverrides"]["monitoringConfiguration"]
    assert monitoring == {
        "s3MonitoringConfiguration": {"logUri": "s3://logs/"},
        "managedPersistenceMonitoringConfiguration": {"encryptionKeyArn": key},
    }
    with pytest.raises(BadConfig, match="not an alias"):
        for_emr(tmp_path, EMR.replace("tags:", "log_key_arn: 'alias/lake', tags:"))


def test_client_uses_endpoint_region_and_timeouts_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings = load(tmp_path, EMR.replace("region:", "endpoint: 'http://emr.test', region:"))
    launcher = open_launcher(settings, ENVIRON)
    assert isinstance(launcher, EmrServerlessLauncher)
    meta = launcher._client.meta
    assert (meta.endpoint_url, meta.region_name) == ("http://emr.test", "eu-west-1")
    assert meta.config.read_timeout == 20
    without, job = for_emr(tmp_path, EMR.replace("region: eu-west-1, ", ""))
    with pytest.raises(BadConfig, match="AWS_REGION"):
        open_emr_serverless(without, job)


def test_unset_variable_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for_emr(tmp_path)
    assert caplog.messages == []
    for_emr(tmp_path, EMR.replace("CATALOG_TOKEN: icemirror/catalog", "OTHER: x"))
    assert "job environment variables missing" in caplog.text


def test_ended_run_does_not_affect_the_next_one(platform: EmrPlatform) -> None:
    launcher = platform.launcher()
    platform.end(launcher.launch(REQUEST))
    platform.start(run_id := launcher.launch(NEXT))
    assert launcher.poll(run_id) is RunState.RUNNING
