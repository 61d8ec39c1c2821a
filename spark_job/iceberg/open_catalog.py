"""Opens a catalog as icemirror uses it: read leanly, not at the mercy of tables, answers not repeated in errors."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cache
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog import Catalog, load_catalog

from icemirror.errors import Invalid
from spark_job.iceberg import damaged_metadata, lean_metadata
from spark_job.iceberg.failures import problems
from spark_job.iceberg.own_properties import distrust_tables

# Imported only by who uses them.
_REST = "pyiceberg.catalog.rest"
_HIVE = "pyiceberg.catalog.hive"


def open_catalog(
    name: str,
    properties: Mapping[str, Any],  # Any: as PyIceberg takes them
    trusted: Set[str] = frozenset(),
) -> Catalog:
    """The catalog with these properties; `trusted` is code that properties of its tables may name."""
    lean_metadata.install()
    damaged_metadata.install()
    try:
        catalog = load_catalog(name, **properties)
    except ValidationError as error:
        # Without the cause: pydantic repeats what it was given.
        raise Invalid(f"catalog {name}: its answer cannot be read ({problems(error)})") from None
    bases = {kind.__module__ for kind in type(catalog).__mro__}
    if _REST in bases:
        hide_answers()
    if _HIVE in bases:
        from spark_job.iceberg.hive_client import use_metastores

        use_metastores(catalog)
    distrust_tables(catalog, trusted)
    return catalog


@cache
def hide_answers() -> None:
    """Pydantic's errors about the answers of REST catalogs, which lend credentials, do not repeat them."""
    from pyiceberg.catalog.rest import ConfigResponse, TableResponse
    from pyiceberg.catalog.rest.response import TokenResponse

    for kind in (ConfigResponse, TableResponse, TokenResponse):
        kind.model_config["hide_input_in_errors"] = True
        kind.model_rebuild(force=True)
