"""Launch times of workers, and how long an invocation waits for them."""

from __future__ import annotations

import pytest

from icemirror.protocol.events import RunState
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.run_request import RunRequest
from tests.unit.trigger.scene import BY_NAME, Scene
from trigger.dispatch.launch_times import dispatch_when_due

OTHER_GROUP = b'{"table":"raw.items"}'


def launched_groups(scene: Scene) -> list[str]:
    return [token.rsplit("-", 2)[0] for token in scene.launcher.launches]


def launch_slowly(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every launch take five seconds."""
    launch = scene.launcher.launch

    def launch_in_five_seconds(request: RunRequest) -> str:
        scene.now += 5.0
        return launch(request)

    monkeypatch.setattr(scene.launcher, "launch", launch_in_five_seconds)


def wait(scene: Scene, max_seconds: float) -> None:
    def sleep(seconds: float) -> None:
        assert seconds > 0
        scene.now += seconds

    dispatch_when_due(scene.dispatcher, max_seconds, sleep)


def test_groups_that_become_due_at_different_times_are_launched(scene: Scene) -> None:
    scene.ingest.accept([BY_NAME])
    scene.now += 0.01
    scene.ingest.accept([OTHER_GROUP])
    wait(scene, 30.0)
    assert launched_groups(scene) == ["default", "heavy"]
    assert scene.now < 1003.0, "there is no wait after the launch"


def test_table_that_becomes_due_during_a_launch_is_launched(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch_slowly(scene, monkeypatch)
    scene.ingest.accept([OTHER_GROUP])
    scene.now += 0.5
    scene.ingest.accept([BY_NAME])
    wait(scene, 30.0)
    assert sorted(launched_groups(scene)) == ["default", "heavy"]


def test_table_that_becomes_due_during_a_one_shot_sweep_is_launched(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        scene.now += seconds

    launch_slowly(scene, monkeypatch)
    scene.dispatcher.sweep()
    scene.now += 0.5
    scene.ingest.accept([BY_NAME])
    scene.now += scene.policy.quiet_seconds - 0.5
    scene.dispatcher.sweep()
    dispatch_when_due(scene.dispatcher, scene.policy.max_wait_seconds, sleep)
    assert sorted(launched_groups(scene)) == ["default", "heavy"]


def test_group_that_backs_off_delays_no_other_group(scene: Scene) -> None:
    scene.ingest.accept([BY_NAME])
    wait(scene, 30.0)
    scene.launcher.runs[scene.me().run_id] = RunState.ENDED
    scene.dispatcher.recover(scene.store.load(ALL_ROWS))
    assert scene.slot().not_before > scene.now
    scene.ingest.accept([OTHER_GROUP])
    wait(scene, 3.0)
    assert "heavy" in launched_groups(scene)
