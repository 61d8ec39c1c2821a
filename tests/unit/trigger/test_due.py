"""When there is something to launch next, and for whom an invocation waits."""

from __future__ import annotations

import pytest

from icemirror.run_request import RunRequest
from icemirror.state.events import RunState
from icemirror.state.reads import EVERYTHING
from tests.unit.trigger.scene import BY_NAME, Scene
from trigger.due import dispatch_when_due

OF_ANOTHER_GROUP = b'{"table":"raw.items"}'


def launched(scene: Scene) -> list[str]:
    return [token.rsplit("-", 2)[0] for token in scene.launcher.launches]


def launch_slowly(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform may take its time."""
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


def test_two_groups_that_are_due_one_after_the_other_are_both_launched(scene: Scene) -> None:
    scene.intake.take([BY_NAME])
    scene.now += 0.01
    scene.intake.take([OF_ANOTHER_GROUP])
    wait(scene, 30.0)
    assert launched(scene) == ["default", "heavy"]
    assert scene.now < 1003.0, "nobody waits for what was launched"


def test_what_becomes_due_while_another_group_is_launched_is_launched_as_well(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch_slowly(scene, monkeypatch)
    scene.intake.take([OF_ANOTHER_GROUP])
    scene.now += 0.5
    scene.intake.take([BY_NAME])
    wait(scene, 30.0)
    assert sorted(launched(scene)) == ["default", "heavy"]


def test_what_becomes_due_during_a_sweep_for_cron_is_launched_as_well(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        scene.now += seconds

    launch_slowly(scene, monkeypatch)
    scene.fleet.sweep()
    scene.now += 0.5
    scene.intake.take([BY_NAME])
    scene.now += scene.policy.quiet_seconds - 0.5
    scene.fleet.sweep_once(sleep)
    assert sorted(launched(scene)) == ["default", "heavy"]


def test_a_group_that_cannot_be_launched_yet_holds_up_no_other(scene: Scene) -> None:
    scene.intake.take([BY_NAME])
    wait(scene, 30.0)
    scene.launcher.runs[scene.me().run_id] = RunState.GONE
    scene.fleet.recover(scene.store.load(EVERYTHING))
    assert scene.slot().not_before > scene.now
    scene.intake.take([OF_ANOTHER_GROUP])
    wait(scene, 3.0)
    assert "heavy" in launched(scene)
