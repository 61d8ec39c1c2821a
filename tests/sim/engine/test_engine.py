"""The whole merge with faults and foreign writes: every snapshot equals the oracle, planted defects are detected."""

from __future__ import annotations

import random
import time

import pytest

from icemirror.errors import Corrupt
from tests.sim.engine.journal import row_of
from tests.sim.engine.planted import FOUR_BITS, PLANTED
from tests.sim.engine.reader import Divergence
from tests.sim.engine.seed_world import run_seed
from tests.sim.engine.seeds import FOUND_BY, REGRESSIONS
from tests.sim.engine.soak import DETECTED, ENGINE, first_seed_that_finds
from tests.sim.engine.world import World
from tests.soak.worker import try_seed

FRESH_SECONDS = 120
FIXED = range(100_000, 100_016)
MAX_SEEDS = 30  # if the recorded seed no longer detects a defect; the soak tries 500


@pytest.mark.parametrize("seed", FIXED)
def test_fixed_seeds_pass(seed: int) -> None:
    run_seed(seed)


@pytest.mark.soak
def test_fresh_seeds_pass() -> None:
    end = time.monotonic() + FRESH_SECONDS
    while time.monotonic() < end:
        seed = random.SystemRandom().randrange(1 << 32)
        result = try_seed(ENGINE, seed)
        assert result.why is None, f"{ENGINE.command} {seed}\n{result.why}"


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_seeds_that_detected_a_defect_pass(seed: int) -> None:
    run_seed(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", sorted({*FOUND_BY.values()}))
def test_seeds_of_planted_defects_pass_without_them(seed: int) -> None:
    run_seed(seed)


# About one of each file of planted defects; `make soak` runs all.
SAMPLE = sorted(PLANTED)[:: max(1, len(PLANTED) // 8)]


@pytest.mark.parametrize("name", SAMPLE)
def test_sample_of_planted_defects_is_detected(name: str) -> None:
    with pytest.raises(DETECTED):
        run_seed(FOUND_BY[name], PLANTED[name])


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(PLANTED))
def test_planted_defect_is_detected(name: str) -> None:
    try:
        run_seed(FOUND_BY.get(name, 0), PLANTED[name])
    except DETECTED:
        return
    seed = first_seed_that_finds(name, MAX_SEEDS)
    assert seed is not None, f"{MAX_SEEDS} seeds do not detect: {name}"


def test_every_planted_defect_changes_an_existing_function() -> None:
    missing = [
        (name, attribute)
        for name, defect in PLANTED.items()
        for owner, attribute, _ in defect.changes
        if not hasattr(owner, attribute)
    ]
    assert not missing


def test_every_planted_defect_has_a_seed() -> None:
    assert len(PLANTED) >= 25
    assert FOUND_BY.keys() == PLANTED.keys()


def test_seed_has_the_same_trace_every_time() -> None:
    assert run_seed(7) == run_seed(7)


def test_hash_collision_stops_the_merge_before_a_wrong_row() -> None:
    """With a hash of four bits the key check must detect collisions: counts cannot."""
    stopped = 0
    for seed in range(60):
        world = World(seed, FOUR_BITS)
        if world.setting.kind not in ("string", "composite"):
            continue
        try:
            world.run(steps=20)
        except Corrupt as error:
            assert "same hash" in str(error) or "does not have the key" in str(error)  # noqa: PT017
            stopped += 1
        if stopped == 3:
            return
    pytest.fail("no two keys shared a hash")


@pytest.mark.parametrize("seed", range(4))
def test_pyiceberg_reads_the_same_rows_as_the_judge(seed: int) -> None:
    world = World(seed)
    world.run()
    mirror = world.mirror
    assert mirror is not None
    names = world.setting.key_names
    rows = {}
    for row in mirror.scan().to_arrow().to_pylist():
        key = tuple(getattr(row[name], "bytes", row[name]) for name in names)
        rows[key] = row_of(row["v"], row["c"], row["x"])
    assert rows == world.judge.reader.read(mirror.current_snapshot()).by_key()


def test_failing_seed_reports_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_self: World) -> None:
        raise Divergence("planted")

    monkeypatch.setattr(World, "_end", end)
    result = try_seed(ENGINE, 3)
    assert result.why is not None
    assert "planted" in result.why
    assert "append" in result.why
