"""moto's server, with the one thing of Glue that commits rest on: `UpdateTable` refuses a stale `VersionId`.

`python -m tests.services.glue_server PORT`. moto 5 ignores the version, so that a race loses an update there.
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

_one_update = threading.Lock()
_update = GlueResponse.update_table


class ConcurrentModification(JsonRESTError):
    """As Glue answers."""

    def __init__(self) -> None:
        super().__init__(
            "ConcurrentModificationException", "Update table failed due to concurrent modifications."
        )


def update_table(response: Any) -> ActionResult:
    """`UpdateTable`; without `SkipArchive` moto's own archive of versions goes on as before."""
    parameters = response.parameters
    expected = parameters.get("VersionId")
    with _one_update:
        table = response.glue_backend.get_table(parameters["DatabaseName"], parameters["TableInput"]["Name"])
        if expected is not None and str(expected) != table.as_dict()["VersionId"]:
            raise ConcurrentModification
        return _update(response)


def main() -> None:
    """Serves until it is ended."""
    patch.object(GlueResponse, "update_table", update_table).start()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
    server.start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
