from __future__ import annotations

from collections.abc import Iterable

import pytest

from icemirror.errors import Invalid
from icemirror.settings import Settings, expand_discovered
from tests.unit.icemirror.settings.samples import CATALOG, Load, Refuse


def names(settings: Settings) -> list[tuple[str, str]]:
    return [(str(table.changelog_id), table.name) for table in settings.tables]


def catalog(*tables: str) -> dict[tuple[str | None, str], list[str]]:
    listed: dict[tuple[str | None, str], list[str]] = {}
    for table in tables:
        namespace, name = table.rsplit(".", 1)
        listed.setdefault((None, namespace), []).append(name)
    return listed


def expand(settings: Settings, *tables: str) -> Settings:
    listed = catalog(*tables)

    def list_tables(catalog: str | None, namespace: str) -> Iterable[str]:
        return listed.get((catalog, namespace), [])

    return expand_discovered(settings, list_tables)


def test_mirror_is_named_after_the_part_that_the_star_matched(load: Load) -> None:
    settings = load(
        f"{CATALOG}discover: [{{namespace: raw, match: '*_changelog', mirror_namespace: shop}}]\n"
    )
    expanded = expand(
        settings, "raw.b_changelog", "raw.a_changelog", "raw.other", "raw._changelog", "x.c_changelog"
    )
    assert names(expanded) == [("raw.a_changelog", "shop.a"), ("raw.b_changelog", "shop.b")]
    assert expanded.source_path == settings.source_path


def test_star_may_be_anywhere_and_mirrors_may_stay_in_the_namespace(load: Load) -> None:
    settings = load(f"{CATALOG}discover: [{{namespace: a.b, match: 'cdc_*_log'}}]\n")
    assert names(expand(settings, "a.b.cdc_x_log", "a.b.cdc_log")) == [("a.b.cdc_x_log", "a.b.x")]


def test_options_of_an_entry_apply_to_its_tables(load: Load) -> None:
    settings = load(
        f"{CATALOG}discover:\n  - namespace: raw\n    match: '*_log'\n    group: heavy\n    profile: debezium\n"
        "    sequence_column: [lsn, ord]\n    partition_by: [day(ts)]\n    min_interval: 5m\n"
    )
    (table,) = expand(settings, "raw.x_log").tables
    assert (table.group, table.profile, table.sequence_column) == ("heavy", "debezium", ("lsn", "ord"))
    assert (str(table.partition_by[0]), table.min_interval) == ("day(ts)", 300)
    assert table.operation_column is None


def test_listed_tables_override_discovered_ones(load: Load) -> None:
    settings = load(
        f"{CATALOG}tables:\n  - {{changelog: raw.a_log, mirror: own.a, group: mine}}\n"
        "  - {changelog: other.b, mirror: shop.b, group: mine}\n"
        "discover: [{namespace: raw, match: '*_log', mirror_namespace: shop}]\n"
    )
    expanded = expand(settings, "raw.a_log", "raw.b_log", "raw.c_log")
    assert names(expanded) == [("raw.a_log", "own.a"), ("other.b", "shop.b"), ("raw.c_log", "shop.c")]
    assert expanded.tables[0].group == "mine"


def test_second_expansion_changes_nothing(load: Load) -> None:
    settings = load(f"{CATALOG}discover: [{{namespace: raw, match: '*_log', mirror_namespace: shop}}]\n")
    once = expand(settings, "raw.a_log")
    assert expand(once, "raw.a_log") == once


def test_changelog_of_two_entries_becomes_one_table(load: Load) -> None:
    settings = load(
        f"{CATALOG}discover:\n  - {{namespace: raw, match: 'a*_log', mirror_namespace: first}}\n"
        "  - {namespace: raw, match: '*_log', mirror_namespace: second}\n"
    )
    assert names(expand(settings, "raw.ab_log", "raw.c_log")) == [
        ("raw.ab_log", "first.b"),
        ("raw.c_log", "second.c"),
    ]


def test_two_changelogs_for_one_mirror_are_an_error(load: Load) -> None:
    settings = load(
        f"{CATALOG}discover:\n  - {{namespace: raw, match: '*_log', mirror_namespace: shop}}\n"
        "  - {namespace: raw2, match: '*_log', mirror_namespace: shop}\n"
    )
    with pytest.raises(Invalid, match=r"the mirror shop\.a already has the changelog raw\.a_log"):
        expand(settings, "raw.a_log", "raw2.a_log")


def test_mirror_is_not_discovered_as_a_changelog(load: Load) -> None:
    settings = load(
        f"{CATALOG}tables: [{{changelog: raw.x, mirror: shop.x_log}}]\n"
        "discover: [{namespace: shop, match: '*_log'}]\n"
    )
    assert names(expand(settings, "shop.x_log", "shop.y_log")) == [
        ("raw.x", "shop.x_log"),
        ("shop.y_log", "shop.y"),
    ]


def test_catalog_of_the_entry_is_listed(load: Load) -> None:
    settings = load(
        "iceberg: {catalog: {type: glue}, catalogs: {lake: {type: glue}}}\n"
        "discover: [{namespace: raw, match: '*', changelog_catalog: lake, group: g}]\n"
    )
    listed: list[tuple[str | None, str]] = []

    def list_tables(catalog: str | None, namespace: str) -> list[str]:
        listed.append((catalog, namespace))
        return ["a"]

    (table,) = expand_discovered(settings, list_tables).tables
    assert listed == [("lake", "raw")]
    assert (table.changelog_catalog, table.name) == ("lake", "raw.a")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{namespace: raw, match: changelog}", "match: 'changelog' must contain exactly one *"),
        ("{namespace: raw, match: '*_*'}", "match: '*_*' must contain exactly one *"),
        ("{namespace: raw, match: '*'}", "match: each mirror would be its own changelog"),
        ("{match: '*_log'}", "namespace: missing"),
        ("{namespace: 'a..b', match: '*_log'}", "namespace: 'a..b' is not a namespace"),
        ("{namespace: raw, match: '*_log', mirror: x.y}", "mirror: unknown key"),
        ("{namespace: raw, match: '*_log', profile: dms}", "sequence_column: missing"),
        ("{namespace: raw, match: '*_log', mirror_catalog: x}", "mirror_catalog: no catalog 'x'"),
    ],
)
def test_invalid_entry_is_refused(refuse: Refuse, entry: str, problem: str) -> None:
    (found,) = refuse(f"{CATALOG}discover: [{entry}]\n")
    assert found.removeprefix("icemirror.yaml:2: discover[0].").startswith(problem)
