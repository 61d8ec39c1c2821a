"""The Iceberg catalogs, with PyIceberg's properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field, SecretStr

from icemirror.catalogs.hive_address import EXPECTED_URI, parse_metastores, user_and_group
from icemirror.settings.masking import mask_url
from icemirror.settings.section import Name, Properties, Section, Url
from icemirror.settings.setting_problems import SettingProblem
from icemirror.similar_names import suggest
from icemirror.tables.mirror_properties import EXPECTED_PATH, is_absolute_path

_MERGE_ONLY_TYPES = ("dynamodb", "bigquery", "in-memory")  # the trigger cannot read heads from these
CATALOG_TYPES = ("rest", "sql", "glue", "hive", *_MERGE_ONLY_TYPES)
_EXPECTED_TYPES = f"rest, sql, glue, hive (for merge only: {', '.join(_MERGE_ONLY_TYPES)})"
_TYPES_WITH_FOLDER_WAREHOUSE = (
    "sql",
    "glue",
    "hive",
    "dynamodb",
)  # for other types a warehouse may be a name
_STORAGE_SCHEMES = (
    "file",
    "s3",
    "s3a",
    "s3n",
    "gs",
    "abfs",
    "abfss",
    "wasb",
    "wasbs",
    "hdfs",
    "viewfs",
    "oss",
    "hf",
)

# The flat keys describe a REST catalog; their names in PyIceberg.
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
    """The catalogs: `catalog`, or the flat keys of a REST catalog."""

    catalog: Properties | None = Field(
        default=None,
        description="The default catalog, in PyIceberg's properties, which are passed through (`type`: rest, sql, "
        "glue, hive; `uri`, `warehouse`, `s3.endpoint`, …).",
    )
    catalogs: dict[Name, Properties] = Field(
        default={}, description="More catalogs by name, for `changelog_catalog` and `mirror_catalog`."
    )
    catalog_url: Url | None = Field(
        default=None, description="Flat form, instead of `catalog`: URL of a REST catalog."
    )
    catalog_token: SecretStr | None = Field(
        default=None, description="Flat form: bearer token of the catalog."
    )
    warehouse: Name | None = Field(default=None, description="Flat form: warehouse of the catalog.")
    s3_endpoint: Url | None = Field(default=None, description="Flat form: URL of the object store.")
    s3_access_key_id: SecretStr | None = Field(
        default=None, description="Flat form: access key of the object store."
    )
    s3_secret_access_key: SecretStr | None = Field(
        default=None, description="Flat form: secret key of the object store."
    )
    s3_region: Name | None = Field(default=None, description="Flat form: region of the object store.")

    def properties(self, name: str | None) -> dict[str, str] | None:
        """Return the properties of a catalog, including secrets; None if there is no such catalog."""
        if name is not None:
            properties = self.catalogs.get(name)
            return None if properties is None else dict(properties)
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

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless there is one complete form, with known catalog types."""
        flat_keys = self._flat_keys()
        if self.catalog is not None and flat_keys:
            yield SettingProblem((flat_keys[0],), "use either `catalog` or the flat keys, not both")
        elif self.catalog is None and not flat_keys:
            yield SettingProblem(
                (), "set `catalog` (any PyIceberg catalog), or `catalog_url` of a REST catalog"
            )
        elif flat_keys and self.catalog_url is None:
            yield SettingProblem(("catalog_url",), "missing: the flat keys describe a REST catalog")
        elif flat_keys and (expected := _expected_address("rest", self.catalog_url or "")) is not None:
            yield SettingProblem(("catalog_url",), f"is not the URL of a REST catalog: {expected}")
        if (self.s3_access_key_id is None) != (self.s3_secret_access_key is None):
            missing = "s3_access_key_id" if self.s3_access_key_id is None else "s3_secret_access_key"
            yield SettingProblem((missing,), "missing: an access key and its secret belong together")
        if self.catalog is not None:
            yield from _catalog_problems(("catalog",), self.catalog)
        for name, properties in self.catalogs.items():
            yield from _catalog_problems(("catalogs", name), properties)


def _catalog_problems(path: tuple[str, ...], properties: Mapping[str, str]) -> Iterator[SettingProblem]:
    type_ = properties.get("type")
    if type_ is None:
        if "uri" not in properties and "py-catalog-impl" not in properties:
            yield SettingProblem((*path, "type"), f"missing: one of {_EXPECTED_TYPES}")
    elif type_ not in CATALOG_TYPES:
        hint = suggest(type_, CATALOG_TYPES)
        yield SettingProblem((*path, "type"), f"expected one of {_EXPECTED_TYPES}; found {type_!r}{hint}")
    elif type_ in ("rest", "sql", "hive") and not properties.get("uri"):
        yield SettingProblem((*path, "uri"), f"missing: a {type_} catalog needs its URL")
    elif (expected := _expected_address(type_, properties.get("uri", ""))) is not None:
        yield SettingProblem((*path, "uri"), f"is not the URL of a {type_} catalog: {expected}")
    if type_ == "hive" and "ugi" in properties and user_and_group(properties["ugi"]) is None:
        yield SettingProblem((*path, "ugi"), "expected user:group")
    retries = properties.get("glue.max-retries", "0")
    if not retries.isdecimal():
        yield SettingProblem((*path, "glue.max-retries"), f"expected a whole number; found {retries!r}")
    warehouse = properties.get("warehouse")
    if type_ in _TYPES_WITH_FOLDER_WAREHOUSE and warehouse and "py-io-impl" not in properties:
        yield from location_problems((*path, "warehouse"), warehouse)


def location_problems(path: tuple[str, ...], location: str) -> Iterator[SettingProblem]:
    """Yield a problem unless the folder is absolute and in a supported storage."""
    scheme, separator, _ = location.partition("://")
    if not is_absolute_path(location):
        yield SettingProblem(path, f"is {mask_url(location)!r}, not {EXPECTED_PATH}")
    elif separator and scheme.lower() not in _STORAGE_SCHEMES:
        yield SettingProblem(
            path, f"unknown storage {scheme}://; expected one of {', '.join(_STORAGE_SCHEMES)}"
        )


def _expected_address(type_: str, address: str) -> str | None:
    """Return the expected form of an invalid URL; never the URL itself, which may contain a password."""
    scheme, separator, location = address.partition("://")
    match type_:
        case "rest" if scheme.lower() not in ("http", "https") or not location:
            return "it must start with http:// or https://"
        case "hive" if parse_metastores(address) is None:
            return EXPECTED_URI
        case "sql" if not scheme or not separator:
            return "write postgresql+psycopg2://user@host/name, or sqlite:////data/catalog.db"
        case "sql" if scheme.split("+")[0] == "sqlite" and location and not location.startswith("/"):
            return "write three slashes before a file's path: sqlite:////data/catalog.db, or sqlite:///catalog.db"
        case _:
            return None
