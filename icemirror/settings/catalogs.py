"""The Iceberg catalogs: any that PyIceberg knows, by its own properties."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from pydantic import Field, SecretStr

from icemirror.settings.contradictions import Contradiction
from icemirror.settings.section import Name, Properties, Section, Url

CATALOG_TYPES = ("rest", "sql", "glue", "hive", "dynamodb", "bigquery", "in-memory")

# The flat keys describe a REST catalog in PyIceberg's property names.
_FLAT_PROPERTIES = {
    "catalog_url": "uri",
    "catalog_token": "token",
    "warehouse": "warehouse",
    "s3_endpoint": "s3.endpoint",
    "s3_access_key_id": "s3.access-key-id",
    "s3_secret_access_key": "s3.secret-access-key",
    "s3_region": "s3.region",
}


class IcebergSettings(Section):
    """Where tables live: `catalog`, or the flat keys of a REST catalog."""

    catalog: Properties | None = Field(
        default=None,
        description="The default catalog: PyIceberg's own properties (`type`: rest, sql, glue, hive; `uri`, "
        "`warehouse`, `s3.endpoint`, …), passed through.",
    )
    catalogs: dict[Name, Properties] = Field(
        default={}, description="Further catalogs by name, for `changelog_catalog` and `mirror_catalog`."
    )
    catalog_url: Url | None = Field(
        default=None, description="Flat form, instead of `catalog`: address of a REST catalog."
    )
    catalog_token: SecretStr | None = Field(default=None, description="Flat form: its bearer token.")
    warehouse: Name | None = Field(default=None, description="Flat form: its warehouse.")
    s3_endpoint: Url | None = Field(default=None, description="Flat form: address of the object store.")
    s3_access_key_id: SecretStr | None = Field(
        default=None, description="Flat form: access key of the object store."
    )
    s3_secret_access_key: SecretStr | None = Field(
        default=None, description="Flat form: secret key of the object store."
    )
    s3_region: Name | None = Field(default=None, description="Flat form: region of the object store.")

    def properties(self, name: str | None) -> dict[str, str] | None:
        """The properties of a catalog, secrets included, or None if there is no catalog of that name."""
        if name is not None:
            found = self.catalogs.get(name)
            return None if found is None else dict(found)
        return self._flat_catalog() if self.catalog is None else dict(self.catalog)

    def _flat_catalog(self) -> dict[str, str]:
        properties = {"type": "rest"}
        for key in self._flat_keys():
            value = getattr(self, key)
            properties[_FLAT_PROPERTIES[key]] = (
                value.get_secret_value() if isinstance(value, SecretStr) else value
            )
        return properties

    def _flat_keys(self) -> list[str]:
        return [key for key in _FLAT_PROPERTIES if getattr(self, key) is not None]

    def contradictions(self) -> Iterator[Contradiction]:
        """One form, complete, and catalog types that exist."""
        flat = self._flat_keys()
        if self.catalog is not None and flat:
            yield Contradiction((flat[0],), "the flat keys stand instead of `catalog`, not beside it")
        elif self.catalog is None and not flat:
            yield Contradiction(
                (), "needs `catalog` (any PyIceberg catalog), or `catalog_url` of a REST catalog"
            )
        elif flat and self.catalog_url is None:
            yield Contradiction(("catalog_url",), "missing: the flat keys describe a REST catalog")
        if (self.s3_access_key_id is None) != (self.s3_secret_access_key is None):
            missing = "s3_access_key_id" if self.s3_access_key_id is None else "s3_secret_access_key"
            yield Contradiction((missing,), "missing: an access key and its secret come together")
        if self.catalog is not None:
            yield from _catalog_problems(("catalog",), self.catalog)
        for name, properties in self.catalogs.items():
            yield from _catalog_problems(("catalogs", name), properties)


def _catalog_problems(path: tuple[str, ...], properties: Mapping[str, str]) -> Iterator[Contradiction]:
    kind = properties.get("type")
    if kind is None:
        if "uri" not in properties and "py-catalog-impl" not in properties:
            yield Contradiction((*path, "type"), f"missing: one of {', '.join(CATALOG_TYPES)}")
    elif kind not in CATALOG_TYPES:
        close = difflib.get_close_matches(kind, CATALOG_TYPES, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        yield Contradiction(
            (*path, "type"), f"expected one of {', '.join(CATALOG_TYPES)}; found {kind!r}{hint}"
        )
    elif kind in ("rest", "sql", "hive") and not properties.get("uri"):
        yield Contradiction((*path, "uri"), f"missing: a {kind} catalog needs its address")
