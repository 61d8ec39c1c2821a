"""The name under which a catalog is loaded."""

from __future__ import annotations

from icemirror.catalogs.catalog_properties import catalog_name, without_name


def test_property_overrides_the_configured_name_which_overrides_the_default() -> None:
    assert catalog_name({}) == "icemirror"
    assert catalog_name({}, "lake") == "lake"
    assert catalog_name({"name": "theirs"}, "lake") == "theirs"


def test_name_is_removed_from_the_properties() -> None:
    assert without_name({"name": "theirs", "uri": "u"}) == {"uri": "u"}
