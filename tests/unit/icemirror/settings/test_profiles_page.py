"""The examples in docs/reference/profiles.md load, and the page covers every profile, connector and format."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import get_args

import pytest

from icemirror.config_file.load import load_settings
from icemirror.settings.profiles import CONNECTORS, PROFILES, SequenceFormat

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "profiles.md").read_text(encoding="utf-8")
EXAMPLES = [textwrap.dedent(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
_HEAD = "iceberg: {catalog: {type: glue}}\n"
_TABLE = "tables:\n  - namespace: shop\n    changelog_table: orders_changelog\n    mirror_table: orders\n"


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_loads(tmp_path: Path, example: str) -> None:
    path = tmp_path / "icemirror.yaml"
    has_tables = example.startswith("tables:")
    path.write_text(_HEAD + (example if has_tables else _TABLE + textwrap.indent(example, "    ")))
    assert load_settings(path, {}).tables[0].profile in PROFILES


def test_page_covers_every_profile_connector_and_format() -> None:
    names = [*PROFILES, *CONNECTORS, *get_args(SequenceFormat)]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
