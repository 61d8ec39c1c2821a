"""Requests to EMR Serverless with the client of boto3, on moto."""

from __future__ import annotations

from pathlib import Path

import pytest
from moto import mock_aws

from icemirror.errors import Invalid
from icemirror.protocol.events import RunState
from tests.unit.trigger.launchers.launcher_settings import for_emr
from tests.unit.trigger.launchers.launcher_suite import NEXT, REQUEST
from trigger.launchers.emr_serverless import EmrServerlessLauncher, open_emr_serverless


def test_boto3_client_sends_the_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """moto ignores tokens and ends every run at once, so states are not asserted."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "emulated")
    with mock_aws():
        settings, job = for_emr(tmp_path)
        client = open_emr_serverless(settings, job)._client
        application = client.create_application(releaseLabel="emr-7.9.0", type="SPARK")
        settings = settings.model_copy(update={"application_id": application["applicationId"]})
        launcher = EmrServerlessLauncher(client, settings, job)
        run_id = launcher.launch(REQUEST)
        assert launcher.find(REQUEST.token) == run_id
        launcher.poll(run_id)
        assert launcher.poll("00fneverheard") is RunState.ENDED
        with pytest.raises(Invalid, match="no EMR Serverless application"):
            EmrServerlessLauncher(
                client, settings.model_copy(update={"application_id": "00fother"}), job
            ).launch(NEXT)
        client.close()
