"""moto's server with the check of Glue that commits depend on: `UpdateTable` rejects a stale `VersionId`.

`python -m tests.services.glue_server PORT`. moto 5 ignores the version, so a race would lose an update.
"""

from __future__ import annotations

import sys
import threading
from typing import Any
from unittest.mock import patch

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.glue.responses import GlueResponse
from moto.server import ThreadedMotoServer

_update_lock = threading.Lock()
_moto_update_table = GlueResponse.update_table


class ConcurrentModification(JsonRESTError):
    """Glue's error for a stale version."""

    def __init__(self) -> None:
        super().__init__(
            "ConcurrentModificationException", "Update table failed due to concurrent modifications."
        )


def update_table(response: Any) -> ActionResult:
    """Handle `UpdateTable`; without `SkipArchive`, moto archives versions as before."""
    parameters = response.parameters
    expected = parameters.get("VersionId")
    with _update_lock:
        table = response.glue_backend.get_table(parameters["DatabaseName"], parameters["TableInput"]["Name"])
        if expected is not None and str(expected) != table.as_dict()["VersionId"]:
            raise ConcurrentModification
        return _moto_update_table(response)


def main() -> None:
    """Serve until the process ends."""
    patch.object(GlueResponse, "update_table", update_table).start()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
    server.start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
