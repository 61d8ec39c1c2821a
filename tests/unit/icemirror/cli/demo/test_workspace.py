from __future__ import annotations

from pathlib import Path

import click
import pytest

from icemirror.cli.demo.shop import SHOP
from icemirror.cli.demo.workspace import MARKER_NAME, TABLES, DemoMarker, prepare_workspace
from icemirror.config_file.load import load_settings

_MARKER = DemoMarker(seed=3, rows=500)


def test_configuration_is_valid_and_lists_the_shop_tables(tmp_path: Path) -> None:
    workspace = prepare_workspace(tmp_path / "a b" / "demo", keep=False, new_marker=_MARKER)
    settings = load_settings(workspace.config, {})
    assert [table.name for table in settings.tables] == [f"shop.{name}" for name in TABLES]
    assert tuple(shop_table.subject.name for shop_table in SHOP) == TABLES
    assert settings.catalog_properties(None) == workspace.catalog_properties
    assert settings.telemetry.prometheus is None


def test_demo_folder_is_recreated(tmp_path: Path) -> None:
    prepare_workspace(tmp_path / "demo", keep=False, new_marker=_MARKER)
    (tmp_path / "demo" / "old").touch()
    workspace = prepare_workspace(tmp_path / "demo", keep=False, new_marker=DemoMarker(seed=4, rows=600))
    assert not (tmp_path / "demo" / "old").exists()
    assert workspace.marker.rows == 600


def test_kept_folder_keeps_its_marker(tmp_path: Path) -> None:
    prepare_workspace(tmp_path / "demo", keep=False, new_marker=_MARKER)
    (tmp_path / "demo" / "old").touch()
    workspace = prepare_workspace(tmp_path / "demo", keep=True, new_marker=DemoMarker(seed=4, rows=600))
    assert (tmp_path / "demo" / "old").exists()
    assert workspace.marker == _MARKER


@pytest.mark.parametrize("keep", [True, False])
def test_folder_without_a_marker_is_not_touched(tmp_path: Path, keep: bool) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(click.UsageError, match="was not created by"):
        prepare_workspace(tmp_path, keep=keep, new_marker=_MARKER)
    assert (tmp_path / "thesis.tex").exists()


def test_existing_file_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "demo").touch()
    with pytest.raises(click.UsageError, match="was not created by"):
        prepare_workspace(tmp_path / "demo", keep=False, new_marker=_MARKER)


def test_folder_of_another_version_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / MARKER_NAME).write_text('{"version": 99}')
    with pytest.raises(click.UsageError, match="another version"):
        prepare_workspace(tmp_path, keep=False, new_marker=_MARKER)


def test_empty_folder_is_used(tmp_path: Path) -> None:
    assert prepare_workspace(tmp_path, keep=False, new_marker=_MARKER).root == tmp_path
    assert (tmp_path / MARKER_NAME).exists()


def test_path_that_is_invalid_in_a_uri_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="without"):
        prepare_workspace(tmp_path / "50%", keep=False, new_marker=_MARKER)


@pytest.mark.parametrize("content", ["", "[]", "{half"])
def test_folder_with_a_damaged_marker_is_not_touched(tmp_path: Path, content: str) -> None:
    (tmp_path / MARKER_NAME).write_text(content)
    with pytest.raises(click.UsageError, match="delete it, or choose another --dir"):
        prepare_workspace(tmp_path, keep=False, new_marker=_MARKER)


def test_error_states_the_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(click.UsageError, match=r"file/demo: cannot be used \(Not a directory\)"):
        prepare_workspace(tmp_path / "file" / "demo", keep=False, new_marker=_MARKER)
