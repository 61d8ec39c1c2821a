"""Missing or damaged segments and roots are rebuilt with the same rows, orders and tombstones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from icemirror.errors import Kind, Transient
from spark_job.engine.engine import InProcessEngine
from spark_job.engine.work import Result, Work
from spark_job.iceberg import mirror as mirror_module
from spark_job.index import blocks
from spark_job.maintenance.rebuild_segment_work import RebuildSegmentWork
from spark_job.storage.file_cache import FileCache
from tests.lab import foreign
from tests.lab.lab import Lab, local_path


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start with empty file caches, like a new process."""
    monkeypatch.setattr(blocks, "_directories", FileCache(0))
    monkeypatch.setattr(mirror_module, "_roots", FileCache(0))


@pytest.fixture(params=[2, 3])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    lab = Lab.make(tmp_path, options=f"format_version: {request.param}", engine=InProcessEngine(2))
    lab.commit_events("I1@10 I2@20 I3@30 I4@40 I5@50 I6@60")
    lab.merge()
    lab.commit_events("U2@70 D3@80 D9@85")
    lab.merge()
    lab.commit_events("U1@90 I7@95")
    lab.merge()
    return lab


def segments(lab: Lab) -> list[Path]:
    return sorted((lab.folder / "warehouse").rglob("*.segment.puffin"), key=lambda path: path.stat().st_mtime)


def roots(lab: Lab) -> list[Path]:
    return list((lab.folder / "warehouse").rglob("*.root.puffin"))


def remove(path: Path) -> None:
    path.unlink()


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[40] ^= 255
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def break_the_name_of_the_orders(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"part_0", b"p\xf4rt_0"))


DAMAGE: list[Callable[[Path], None]] = [remove, flip_a_byte, cut]
LATE = "U1@89=old U2@69=old I3@79=old U5@51=new D6@59 I9@84=old U7@95=same I8@1=late"
AFTER = {1: "U1@90", 2: "U2@70", 4: "I4@40", 5: "new", 6: "I6@60", 7: "same", 8: "late"}


@pytest.mark.parametrize("damage", [*DAMAGE, break_the_name_of_the_orders])
@pytest.mark.parametrize("number", range(5))
def test_any_segment_is_rebuilt_with_its_orders_and_tombstones(
    lab: Lab, number: int, damage: Callable[[Path], None]
) -> None:
    damage(segments(lab)[number])
    lab.commit_events(LATE)
    lab.merge()
    assert lab.rows() == AFTER
    lab.commit_events("D1@91 I3@81=back")
    lab.merge()
    assert lab.rows() == {**{key: value for key, value in AFTER.items() if key != 1}, 3: "back"}


@pytest.mark.parametrize("damage", DAMAGE)
def test_all_segments_are_rebuilt_together(lab: Lab, damage: Callable[[Path], None]) -> None:
    for path in segments(lab):
        damage(path)
    lab.commit_events(LATE)
    lab.merge()
    assert lab.rows() == AFTER


@pytest.mark.parametrize("damage", DAMAGE)
def test_unreadable_root_is_rebuilt(lab: Lab, damage: Callable[[Path], None]) -> None:
    for path in roots(lab):
        damage(path)
    lab.commit_events(LATE)
    lab.merge()
    assert lab.rows() == AFTER
    lab.commit_events("U4@99")
    lab.merge()
    assert lab.rows()[4] == "U4@99"


def test_foreign_deletes_survive_the_loss_of_their_tombstones(lab: Lab) -> None:
    foreign.delete_rows(lab.mirror, [4, 5])
    before = set(segments(lab))
    lab.commit_events("U6@96")
    lab.merge()
    for path in set(segments(lab)) - before:
        path.unlink()
    lab.commit_events("U4@39=old U6@97 I5@100=new")
    lab.merge()
    assert lab.rows() == {1: "U1@90", 2: "U2@70", 5: "new", 6: "U6@97", 7: "I7@95"}
    lab.commit_events("U4@101=new")
    lab.merge()
    assert lab.rows()[4] == "new"


def test_damaged_segment_and_foreign_writes_are_repaired_together(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@20 I3@30")
    lab.merge()
    segments(lab)[0].unlink()
    foreign.append(lab.mirror, [(7, "theirs")])
    foreign.delete_rows(lab.mirror, [3])
    lab.commit_events("U1@9=old U2@21=new U3@29=old")
    lab.merge()
    assert lab.rows() == {1: "I1@10", 2: "new", 7: "theirs"}


def test_row_deleted_with_its_file_stays_deleted_when_its_segment_is_lost(
    tmp_path: Path,
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@20 I3@25")
    lab.merge()
    (first,) = segments(lab)
    lab.mirror.delete("id = 1")
    lab.commit_events("I4@30")
    lab.merge()
    first.unlink()
    lab.commit_events("U1@9=old U2@31")
    lab.merge()
    assert lab.rows() == {2: "U2@31", 3: "I3@25", 4: "I4@30"}


def test_row_inserted_again_by_another_writer_survives_a_lost_segment(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@20")
    lab.merge()
    lab.commit_events("D1@30")
    lab.merge()
    foreign.append(lab.mirror, [(1, "theirs")])
    lab.commit_events("U2@40")
    lab.merge()
    before = set(segments(lab))
    lab.commit_events("I0@50 I3@51")
    lab.merge()
    for path in set(segments(lab)) - before:
        path.unlink()
    lab.commit_events("U0@60 U3@61")
    lab.merge()
    assert lab.rows()[1] == "theirs"
    lab.commit_events("U1@70=new")
    lab.merge()
    assert lab.rows() == {0: "U0@60", 1: "new", 2: "U2@40", 3: "U3@61"}


def test_foreign_row_counts_as_newest_when_the_root_is_lost(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@20")
    lab.merge()
    foreign.append(lab.mirror, [(7, "theirs")])
    lab.commit_events("U2@30")
    lab.merge()
    for path in roots(lab):
        path.unlink()
    lab.commit_events("U7@25=old")
    lab.merge()
    assert lab.rows()[7] == "theirs"
    lab.commit_events("U7@31=new")
    lab.merge()
    assert lab.rows()[7] == "new"


def test_foreign_row_keeps_its_order_after_stale_events_of_its_key(
    tmp_path: Path,
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@30")
    lab.merge()
    before = set(segments(lab))
    foreign.append(lab.mirror, [(7, "theirs")])
    lab.commit_events("U7@20=stale")
    lab.merge()
    for path in set(segments(lab)) - before:
        path.unlink()
    lab.commit_events("U7@25=old")
    lab.merge()
    assert lab.rows()[7] == "theirs"
    lab.commit_events("U7@31=new")
    lab.merge()
    assert lab.rows()[7] == "new"


def test_moved_row_keeps_its_order_when_its_segment_is_lost(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@30")
    lab.merge()
    before = set(segments(lab))
    foreign.compact(lab.mirror)
    lab.commit_events("I3@40")
    lab.merge()
    for path in set(segments(lab)) - before:
        path.unlink()
    lab.commit_events("U1@9=old U2@31=new")
    lab.merge()
    assert lab.rows() == {1: "I1@10", 2: "new", 3: "I3@40"}


def test_two_live_rows_of_one_key_stop_a_rebuild(tmp_path: Path) -> None:
    """This happens if a data file is replaced by a copy of another one."""
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@20")
    lab.merge()
    lab.commit_events("I3@30 I4@40")
    lab.merge()
    files = sorted((lab.folder / "warehouse" / "lab" / "world" / "data").rglob("*.parquet"))
    files[0].write_bytes(files[1].read_bytes())
    for path in roots(lab):
        path.unlink()
    lab.commit_events("I5@50")
    result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.CORRUPT
    assert "has the key of" in result.error.message


class DamagingEngine(InProcessEngine):
    """Damages every segment that a rebuild writes."""

    rebuilt = 0

    def run(self, work: Work[Result]) -> list[Result]:
        untyped: object = work  # mypy excludes RebuildSegmentWork from Work[Result]
        results = super().run(work)
        if isinstance(untyped, RebuildSegmentWork):
            DamagingEngine.rebuilt += 1
            assert DamagingEngine.rebuilt < 20, "endless rebuilds"
            for result in results:
                flip_a_byte(local_path(result.paths[0]))
        return results


@pytest.mark.parametrize("lost_files", [segments, roots])
def test_unreadable_rebuilt_segment_blocks_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_files: Callable[[Lab], list[Path]]
) -> None:
    monkeypatch.setattr(DamagingEngine, "rebuilt", 0)
    lab = Lab.make(tmp_path, engine=DamagingEngine())
    lab.commit_events("I1@10 I2@20")
    lab.merge()
    for path in lost_files(lab):
        path.unlink()
    before = lab.files_on_disk()
    lab.commit_events("U1@30")
    result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.CORRUPT
    assert result.error.message.startswith("lab.world: rebuilt segments of the key index cannot be read")
    assert lab.files_on_disk() == before


def test_more_segments_than_attempts_are_rebuilt(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, engine=InProcessEngine(12))
    lab.commit_events(" ".join(f"I{key}@{key}" for key in range(1, 25)))
    lab.merge()
    assert len(segments(lab)) > 8
    for path in segments(lab):
        path.unlink()
    lab.commit_events(" ".join(f"U{key}@{key - 1}=old" for key in range(1, 25)))
    lab.merge()
    assert lab.rows() == {key: f"I{key}@{key}" for key in range(1, 25)}


def test_rebuild_that_fails_midway_leaves_no_files(tmp_path: Path) -> None:
    class FailingEngine(InProcessEngine):
        def run(self, work: Work[Result]) -> list[Result]:
            untyped: object = work
            older = untyped.older_index.segments if isinstance(untyped, RebuildSegmentWork) else ()
            if older and all(local_path(segment.path).exists() for segment in older):
                raise Transient("storage failed")
            return super().run(work)

    lab = Lab.make(tmp_path, engine=FailingEngine())
    for words in ("I1@10", "I1@20 I2@20"):
        lab.commit_events(words)
        lab.merge()
    for path in segments(lab):
        path.unlink()
    before = lab.files_on_disk()
    lab.commit_events("U1@30 U2@30")
    result = lab.try_merge()
    assert result.error is not None
    assert result.error.message == "storage failed"
    assert lab.files_on_disk() == before
