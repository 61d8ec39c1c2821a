"""Opens a catalog with the patches of this package."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cache
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog import Catalog, load_catalog

from icemirror.errors import Invalid
from spark_job.pyiceberg_private import damaged_metadata, lean_metadata
from spark_job.pyiceberg_private.untrusted_properties import ignore_table_properties
from spark_job.storage.translate_errors import describe_validation_error

# Imported only if they are used.
_REST = "pyiceberg.catalog.rest"
_HIVE = "pyiceberg.catalog.hive"


def open_catalog(
    name: str,
    properties: Mapping[str, Any],  # Any: as PyIceberg takes them
    trusted: Set[str] = frozenset(),
) -> Catalog:
    """Return an opened catalog. `trusted`: location providers that the properties of its tables may name."""
    lean_metadata.install()
    damaged_metadata.install()
    try:
        catalog = load_catalog(name, **properties)
    except ValidationError as error:
        raise Invalid(
            f"catalog {name}: its response cannot be parsed ({describe_validation_error(error)})"
        ) from None  # pydantic's error repeats its input
    base_modules = {base.__module__ for base in type(catalog).__mro__}
    if _REST in base_modules:
        hide_responses_in_errors()
    if _HIVE in base_modules:
        from spark_job.pyiceberg_private.hive_client import install_metastore_client

        install_metastore_client(catalog)
    ignore_table_properties(catalog, trusted)
    return catalog


@cache
def hide_responses_in_errors() -> None:
    """Keep responses of REST catalogs out of pydantic's errors: they contain credentials. No upstream issue known."""
    from pyiceberg.catalog.rest import ConfigResponse, TableResponse
    from pyiceberg.catalog.rest.response import TokenResponse

    for response_class in (ConfigResponse, TableResponse, TokenResponse):
        response_class.model_config["hide_input_in_errors"] = True
        response_class.model_rebuild(force=True)
