"""The whole merge through faults and other writers: every snapshot as the oracle says, every planted mistake found."""

from __future__ import annotations

import random
import time

import pytest

from icemirror.errors import Corrupt
from tests.sim.engine.bugs import BUGS, FOUR_BITS
from tests.sim.engine.journal import row_of
from tests.sim.engine.reader import Divergence
from tests.sim.engine.seeds import FOUND_BY, REGRESSIONS
from tests.sim.engine.soak import ENGINE, SHOWS, first_seed_that_finds
from tests.sim.engine.story import run_seed
from tests.sim.engine.world import World
from tests.soak.worker import tell

FRESH_SECONDS = 120
MOST_SEEDS = 30  # where the noted one does not find a mistake any more; the soak looks in 500


def test_fresh_seeds_hold() -> None:
    end = time.monotonic() + FRESH_SECONDS
    while time.monotonic() < end:
        seed = random.SystemRandom().randrange(1 << 32)
        told = tell(ENGINE, seed)
        assert told.why is None, f"{ENGINE.command} {seed}\n{told.why}"


@pytest.mark.parametrize("seed", sorted({*REGRESSIONS, *FOUND_BY.values()}))
def test_seeds_that_found_something_hold_now(seed: int) -> None:
    run_seed(seed)


@pytest.mark.parametrize("name", sorted(BUGS))
def test_planted_mistake_is_found(name: str) -> None:
    try:
        run_seed(FOUND_BY.get(name, 0), BUGS[name])
    except SHOWS:
        return
    seed = first_seed_that_finds(name, MOST_SEEDS)
    assert seed is not None, f"{MOST_SEEDS} seeds do not find: {name}"


def test_there_are_mistakes_enough_and_each_has_its_seed() -> None:
    assert len(BUGS) >= 25
    assert FOUND_BY.keys() == BUGS.keys()


def test_a_seed_tells_the_same_story_every_time() -> None:
    assert run_seed(7) == run_seed(7)


def test_keys_that_share_a_hash_stop_the_merge_before_a_row_is_wrong() -> None:
    """A hash of four bits: the key check must see it, because counts cannot."""
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
def test_pyiceberg_reads_what_the_judge_reads(seed: int) -> None:
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


def test_what_fails_carries_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_self: World) -> None:
        raise Divergence("planted")

    monkeypatch.setattr(World, "_end", end)
    told = tell(ENGINE, 3)
    assert told.why is not None
    assert "planted" in told.why
    assert "append" in told.why
