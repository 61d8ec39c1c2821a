from __future__ import annotations

import pytest

from icemirror.errors import Invalid
from icemirror.settings import expand_discovered
from tests.unit.icemirror.settings.samples import CATALOG, Load, Refuse

QUARANTINE = "on_bad_row: quarantine"
SHARED_REJECTS_TABLE = "".join(
    f"  - {{changelog: r.{name}_log, mirror: s.{name}, {QUARANTINE}, rejects_table: bad}}\n" for name in "ab"
)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("", "raw.shop.a_rejects"),
        (", rejects_table: bad", "raw.shop.bad"),
        (", rejects_table: x.y.bad", "x.y.bad"),
    ],
)
def test_rejects_table_is_next_to_the_mirror_by_default(load: Load, option: str, name: str) -> None:
    settings = load(
        f"{CATALOG}tables:\n  - {{changelog: raw.a_log, mirror: raw.shop.a, {QUARANTINE}{option}}}\n"
    )
    assert str(settings.tables[0].rejects_id) == name


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        (
            f"  - {{changelog: r.a_log, mirror: s.a, {QUARANTINE}}}\n  - {{changelog: r.b_log, mirror: s.a_rejects}}\n",
            "tables[0]: the rejects table s.a_rejects is already a mirror: choose another rejects_table",
        ),
        (
            f"  - {{changelog: r.a_log, mirror: s.a, {QUARANTINE}, rejects_table: r.a_log}}\n",
            "tables[0]: the rejects table r.a_log is already a changelog",
        ),
        (
            SHARED_REJECTS_TABLE,
            "tables[1]: the rejects table s.bad is already the rejects table of s.a",
        ),
        (
            "  - {changelog: r.a_log, mirror: s.a, rejects_table: s..bad}\n",
            "rejects_table: 's..bad' is not a table name",
        ),
        ("  - {changelog: r.a_log, mirror: s.a, reject_limit: 0}\n", "reject_limit: "),
        ("  - {changelog: r.a_log, mirror: s.a, reject_limit: 1.5}\n", "reject_limit: "),
        ("  - {changelog: r.a_log, mirror: s.a, reject_limit: some}\n", "reject_limit: "),
    ],
)
def test_invalid_names_and_limits_are_refused(refuse: Refuse, tables: str, problem: str) -> None:
    (found,) = refuse(f"{CATALOG}tables:\n{tables}")
    assert problem in found


def test_tables_of_one_pattern_cannot_share_a_rejects_table(refuse: Refuse) -> None:
    (found,) = refuse(
        f'{CATALOG}discover:\n  - {{namespace: raw, match: "*_log", {QUARANTINE}, rejects_table: bad}}\n'
    )
    assert "all discovered tables would share it" in found


def test_discovered_mirror_with_the_name_of_a_rejects_table_is_an_error(load: Load) -> None:
    settings = load(
        f'{CATALOG}discover:\n  - {{namespace: raw, match: "*_log", mirror_namespace: s, {QUARANTINE}}}\n'
    )
    with pytest.raises(Invalid, match=r"the rejects table s\.a_rejects is already a mirror"):
        expand_discovered(settings, lambda _catalog, _namespace: ["a_log", "a_rejects_log"])
