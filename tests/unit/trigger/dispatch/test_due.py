"""When the next worker is due, and how long an invocation waits for it."""

from __future__ import annotations

import pytest

from icemirror.processes.run_request import RunRequest
from icemirror.protocol.events import RunState
from icemirror.protocol.reads import EVERYTHING
from tests.unit.trigger.scene import BY_NAME, Scene
from trigger.dispatch.due import dispatch_when_due

OF_ANOTHER_GROUP = b'{"table":"raw.items"}'


def launched(scene: Scene) -> list[str]:
    return [token.rsplit("-", 2)[0] for token in scene.launcher.launches]


def launch_slowly(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every launch take five seconds."""
    launch = scene.launcher.launch

    def slowly(request: RunRequest) -> str:
        scene.now += 5.0
        return launch(request)

    monkeypatch.setattr(scene.launcher, "launch", slowly)


def wait(scene: Scene, most_seconds: float) -> None:
    def sleep(seconds: float) -> None:
        assert seconds > 0
        scene.now += seconds

    dispatch_when_due(scene.fleet, most_seconds, sleep)


def test_groups_that_become_due_one_after_the_other_are_both_launched(scene: Scene) -> None:
    scene.ingest.accept([BY_NAME])
    scene.now += 0.01
    scene.ingest.accept([OF_ANOTHER_GROUP])
    wait(scene, 30.0)
    assert launched(scene) == ["default", "heavy"]
    assert scene.now < 1003.0, "there is no wait after the launch"


def test_table_that_becomes_due_during_a_launch_is_launched(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch_slowly(scene, monkeypatch)
    scene.ingest.accept([OF_ANOTHER_GROUP])
    scene.now += 0.5
    scene.ingest.accept([BY_NAME])
    wait(scene, 30.0)
    assert sorted(launched(scene)) == ["default", "heavy"]


def test_table_that_becomes_due_during_a_one_shot_sweep_is_launched(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        scene.now += seconds

    launch_slowly(scene, monkeypatch)
    scene.fleet.sweep()
    scene.now += 0.5
    scene.ingest.accept([BY_NAME])
    scene.now += scene.policy.quiet_seconds - 0.5
    scene.fleet.sweep()
    dispatch_when_due(scene.fleet, scene.policy.max_wait_seconds, sleep)
    assert sorted(launched(scene)) == ["default", "heavy"]


def test_group_that_cannot_be_launched_yet_delays_no_other(scene: Scene) -> None:
    scene.ingest.accept([BY_NAME])
    wait(scene, 30.0)
    scene.launcher.runs[scene.me().run_id] = RunState.ENDED
    scene.fleet.recover(scene.store.load(EVERYTHING))
    assert scene.slot().not_before > scene.now
    scene.ingest.accept([OF_ANOTHER_GROUP])
    wait(scene, 3.0)
    assert "heavy" in launched(scene)
