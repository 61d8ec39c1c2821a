"""The demo's folder, identified by a marker file: recreated or continued, with an ordinary configuration."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import yaml

MARKER_NAME = ".icemirror-demo"
NAMESPACE = "shop"
TABLES = ("customers", "order_items", "products")
_VERSION = 1
_CONFIG_HEAD = """\
# Created by `icemirror demo`: an ordinary configuration, for every command (-c {path}).
"""


@dataclass(frozen=True)
class DemoMarker:
    """The parameters of the data in the folder; a run that continues uses the same."""

    seed: int
    rows: int
    version: int = _VERSION


@dataclass(frozen=True)
class Workspace:
    """The folder and its files."""

    root: Path
    marker: DemoMarker

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.root / "icemirror.yaml"

    @property
    def journal(self) -> Path:
        """The generator's journal."""
        return self.root / "journal.db"

    @property
    def state(self) -> Path:
        """The trigger's state."""
        return self.root / "state.db"

    @property
    def watch_log(self) -> Path:
        """The log of the watch."""
        return self.root / "watch.log"

    @property
    def catalog_properties(self) -> dict[str, str]:
        """The catalog of changelogs and mirrors."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.root}/catalog.db",
            "warehouse": f"file://{self.root}/warehouse",
        }


def prepare_workspace(directory: Path, *, keep: bool, new_marker: DemoMarker) -> Workspace:
    """Return the folder, emptied unless `keep`. Refuses a folder that the demo did not create."""
    root = directory.absolute()
    if any(character in str(root) for character in "?#%"):
        raise click.UsageError(f"{root}: choose a --dir without ? # % in its path")
    marker = read_marker(root)
    if marker is None and root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise click.UsageError(
            f"{root} is not empty and was not created by `icemirror demo` (no {MARKER_NAME} in it): "
            "choose another --dir"
        )
    if marker is not None and keep:
        return Workspace(root, marker)
    if marker is not None:
        shutil.rmtree(root.resolve())
    workspace = Workspace(root, new_marker)
    try:
        _write(workspace)
    except OSError as error:
        raise _unusable(root, error) from error
    return workspace


def _write(workspace: Workspace) -> None:
    """Create the folder, its marker and the configuration."""
    root = workspace.root
    root.mkdir(parents=True, exist_ok=True)
    (root / MARKER_NAME).write_text(json.dumps(asdict(workspace.marker)) + "\n")
    workspace.config.write_text(_CONFIG_HEAD.format(path=workspace.config) + _config_text(workspace))


def _unusable(root: Path, error: OSError) -> click.UsageError:
    return click.UsageError(f"{root}: cannot be used ({error.strerror}): choose another --dir")


def read_marker(root: Path) -> DemoMarker | None:
    """Return the marker of a folder that the demo created, else None."""
    try:
        content = json.loads((root / MARKER_NAME).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(root, error) from error
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        raise click.UsageError(
            f"{root} was created by another version of the demo: delete it, or choose another --dir"
        )
    return DemoMarker(**content)


def _config_text(workspace: Workspace) -> str:
    content: dict[str, Any] = {
        "project_ref": "shop",
        "environment": "demo",
        "iceberg": {"catalog": workspace.catalog_properties},
        "tables": [
            {"namespace": NAMESPACE, "changelog_table": f"{name}_changelog", "mirror_table": name}
            for name in TABLES
        ],
        # The tables are small: without this, no merge would need Spark.
        "job": {"linger": "20s", "spark_from_events": 0, "spark": {"spark.driver.memory": "1g"}},
        "trigger": {
            "state": {"type": "sqlite", "path": str(workspace.state)},
            "launcher": {"type": "local"},
            "poll_interval": "500ms",
            "quiet_period": "500ms",
            "max_wait": "2s",
        },
        "telemetry": {"log_format": "text", "prometheus": None},
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
