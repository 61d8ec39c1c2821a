"""The configurations in docs/how-to/catalogs.md are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icemirror.config_file.load import load_settings
from tests.services.lakes import CATALOGS_PAGE

BLOCKS = re.findall(r"\n## ([^\n]+)\n\n```yaml\n(.*?)```", CATALOGS_PAGE.read_text(), re.DOTALL)
_SECRETS = (
    "POSTGRES_PASSWORD",
    "CATALOG_TOKEN",
    "S3_ACCESS_KEY_ID",
    "S3_SECRET_ACCESS_KEY",
    "ADLS_ACCOUNT_KEY",
)
_TABLES = "tables: [{namespace: shop, changelog_table: orders_changelog, mirror_table: orders}]\n"


@pytest.mark.parametrize(("title", "block"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_configuration_on_the_page_is_valid(tmp_path: Path, title: str, block: str) -> None:
    path = tmp_path / "icemirror.yaml"
    path.write_text(block if "tables:" in block else block + _TABLES)
    settings = load_settings(path, dict.fromkeys(_SECRETS, "secret"))
    for table in settings.tables:
        for name in (table.changelog_catalog, table.mirror_catalog):
            assert settings.catalog_properties(name)["type"], title


def test_page_has_a_configuration_in_each_section() -> None:
    assert len(BLOCKS) == 9
