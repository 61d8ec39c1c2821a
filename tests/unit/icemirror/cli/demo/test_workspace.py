from __future__ import annotations

from pathlib import Path

import click
import pytest

from icemirror.cli.demo.shop import SHOP
from icemirror.cli.demo.workspace import MARKER_NAME, TABLES, DemoMarker, prepare_workspace
from icemirror.config_file.load import load_settings

_MARKER = DemoMarker(seed=3, rows=500)


def test_the_configuration_is_valid_and_names_the_tables_of_the_shop(tmp_path: Path) -> None:
    workspace = prepare_workspace(tmp_path / "a b" / "demo", keep=False, wanted=_MARKER)
    settings = load_settings(workspace.config, {})
    assert [table.name for table in settings.tables] == [f"shop.{name}" for name in TABLES]
    assert tuple(shape.subject.name for shape in SHOP) == TABLES
    assert settings.catalog_properties(None) == workspace.catalog_properties
    assert settings.telemetry.prometheus is None


def test_a_demo_folder_is_recreated(tmp_path: Path) -> None:
    prepare_workspace(tmp_path / "demo", keep=False, wanted=_MARKER)
    (tmp_path / "demo" / "old").touch()
    workspace = prepare_workspace(tmp_path / "demo", keep=False, wanted=DemoMarker(seed=4, rows=600))
    assert not (tmp_path / "demo" / "old").exists()
    assert workspace.marker.rows == 600


def test_a_kept_folder_keeps_how_it_was_made(tmp_path: Path) -> None:
    prepare_workspace(tmp_path / "demo", keep=False, wanted=_MARKER)
    (tmp_path / "demo" / "old").touch()
    workspace = prepare_workspace(tmp_path / "demo", keep=True, wanted=DemoMarker(seed=4, rows=600))
    assert (tmp_path / "demo" / "old").exists()
    assert workspace.marker == _MARKER


@pytest.mark.parametrize("keep", [True, False])
def test_a_foreign_folder_is_not_touched(tmp_path: Path, keep: bool) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(click.UsageError, match="was not created by"):
        prepare_workspace(tmp_path, keep=keep, wanted=_MARKER)
    assert (tmp_path / "thesis.tex").exists()


def test_a_file_in_the_way_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "demo").touch()
    with pytest.raises(click.UsageError, match="was not created by"):
        prepare_workspace(tmp_path / "demo", keep=False, wanted=_MARKER)


def test_a_folder_of_another_version_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / MARKER_NAME).write_text('{"version": 99}')
    with pytest.raises(click.UsageError, match="another version"):
        prepare_workspace(tmp_path, keep=False, wanted=_MARKER)


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    assert prepare_workspace(tmp_path, keep=False, wanted=_MARKER).root == tmp_path
    assert (tmp_path / MARKER_NAME).exists()


def test_a_path_that_no_address_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="without"):
        prepare_workspace(tmp_path / "50%", keep=False, wanted=_MARKER)


@pytest.mark.parametrize("content", ["", "[]", "{half"])
def test_a_folder_with_a_damaged_marker_is_not_touched(tmp_path: Path, content: str) -> None:
    (tmp_path / MARKER_NAME).write_text(content)
    with pytest.raises(click.UsageError, match="delete it, or choose another --dir"):
        prepare_workspace(tmp_path, keep=False, wanted=_MARKER)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(click.UsageError, match=r"file/demo: cannot be used \(Not a directory\)"):
        prepare_workspace(tmp_path / "file" / "demo", keep=False, wanted=_MARKER)
