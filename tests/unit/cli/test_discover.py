"""What commands say of `discover` where it finds nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from icemirror.cli.main import run
from tests.unit.merge.lab import Lab


@pytest.fixture
def config(tmp_path: Path) -> Path:
    Lab.make(tmp_path)
    path = tmp_path / "discover.yaml"
    path.write_text(
        f"iceberg: {{catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/catalog.db', "
        f"warehouse: 'file://{tmp_path}/wh'}}}}\n"
        f"trigger: {{state: {{type: sqlite, path: '{tmp_path}/state.db'}}}}\n"
        "discover: [{namespace: lab, match: '*_chnagelog'}]\n"
    )
    return path


@pytest.mark.parametrize("command", ["plan", "merge", "status", "sweep", "maintain"])
def test_a_pattern_that_matches_nothing_is_said(
    config: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    assert run([command, "-c", str(config)]) == 0
    shown = capfd.readouterr()
    assert "discover: no table of lab matches *_chnagelog" in shown.err
    assert shown.out.strip() in ("", "no tables")


def test_a_pattern_that_matches_is_not_spoken_of(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace("chnagelog", "changelog"))
    for command in ("plan", "status"):
        assert run([command, "-c", str(config)]) == 0
        shown = capfd.readouterr()
        assert "matches" not in shown.err
        assert "lab.world" in shown.out


def test_checking_a_configuration_asks_no_catalog(tmp_path: Path) -> None:
    path = tmp_path / "icemirror.yaml"
    path.write_text(
        f"iceberg: {{catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/none.db', warehouse: 'file://{tmp_path}'}}}}\n"
        "discover: [{namespace: lab, match: '*_changelog'}]\n"
    )
    assert run(["config", "check", "-c", str(path)]) == 0
    assert not (tmp_path / "none.db").exists()
