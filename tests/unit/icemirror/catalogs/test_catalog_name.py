"""The name under which a catalog is loaded."""

from __future__ import annotations

from icemirror.catalogs.catalog_name import catalog_name, without_name


def test_the_property_wins_over_the_configured_name_and_that_over_the_default() -> None:
    assert catalog_name({}) == "icemirror"
    assert catalog_name({}, "lake") == "lake"
    assert catalog_name({"name": "theirs"}, "lake") == "theirs"


def test_the_name_is_not_passed_on_among_the_properties() -> None:
    assert without_name({"name": "theirs", "uri": "u"}) == {"uri": "u"}
