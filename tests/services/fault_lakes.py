"""Lakes with fault injection: requests of the merge pass a fault proxy, those of the writer and the oracle do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from tests.services.fault_proxy import Plan, fault_proxy
from tests.services.glue import Glue, glue
from tests.services.lakes import Lake
from tests.services.nessie import Nessie, nessie
from tests.services.rest_catalog import RestCatalog, rest_catalog
from tests.services.s3proxy import S3Proxy, s3proxy

# Commits, the most important requests, are POSTs to both catalogs. Glue uses POST for every request.
_REST_RATES = {"GET": 0.04, "POST": 0.3}
_GLUE_RATES = {"POST": 0.08}
_STORE_RATES = {"GET": 0.01, "HEAD": 0.01, "PUT": 0.02, "POST": 0.02}
KINDS = ("rest", "glue", "nessie")


@contextmanager
def faulty_rest(rest: RestCatalog, s3: S3Proxy, seed: int) -> Iterator[tuple[Lake, list[Plan]]]:
    """Run a REST catalog and S3 behind fault proxies."""
    plans = [Plan(seed, _REST_RATES), Plan(seed + 1, _STORE_RATES)]
    with fault_proxy(rest.port, plans[0]) as catalog, fault_proxy(s3.port, plans[1]) as store:
        mirror = {"type": "rest", "uri": catalog.endpoint, **s3.properties(store.endpoint)}
        yield Lake(mirror, writer_mirror={"type": "rest", "uri": rest.uri, **s3.properties()}), plans


@contextmanager
def faulty_glue(glue_server: Glue, s3: S3Proxy, seed: int) -> Iterator[tuple[Lake, list[Plan]]]:
    """Run an emulated Glue and S3 behind fault proxies."""
    plans = [Plan(seed, _GLUE_RATES, status=(429, 500, 503, 504)), Plan(seed + 1, _STORE_RATES)]
    warehouse = {"warehouse": s3.make_bucket(f"lab-{uuid4().hex[:12]}")}
    with fault_proxy(glue_server.port, plans[0]) as catalog, fault_proxy(s3.port, plans[1]) as store:
        mirror = {**glue_server.properties(catalog.endpoint), **warehouse, **s3.properties(store.endpoint)}
        yield Lake(mirror, writer_mirror={**glue_server.properties(), **warehouse, **s3.properties()}), plans


@contextmanager
def faulty_nessie(
    nessie_server: Nessie, rest: RestCatalog, s3: S3Proxy, seed: int
) -> Iterator[tuple[Lake, list[Plan]]]:
    """Run Nessie and S3 behind fault proxies.

    The changelog is in the REST catalog, because Nessie exposes no snapshot history.
    """
    plans = [Plan(seed, _REST_RATES), Plan(seed + 1, _STORE_RATES)]
    with fault_proxy(nessie_server.port, plans[0]) as catalog, fault_proxy(s3.port, plans[1]) as store:
        mirror = {"type": "rest", "uri": f"{catalog.endpoint}/iceberg", **s3.properties(store.endpoint)}
        writer = {"type": "rest", "uri": nessie_server.uri, **s3.properties()}
        changelog = {"type": "rest", "uri": rest.uri, **s3.properties()}
        yield Lake(mirror, changelog=changelog, writer_mirror=writer), plans


class FaultServers:
    """All servers of the fault tests, for runs outside of pytest."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack  # keeps the servers running
        self.s3 = stack.enter_context(s3proxy(folder))
        warehouse = self.s3.make_bucket("rest-warehouse")
        self.rest = stack.enter_context(rest_catalog(folder, self.s3, f"{warehouse}/tables"))
        self.glue = stack.enter_context(glue(folder))
        self.nessie = stack.enter_context(nessie(folder, self.s3, self.s3.make_bucket("nessie-warehouse")))

    def lake(self, kind: str, seed: int) -> AbstractContextManager[tuple[Lake, list[Plan]]]:
        match kind:
            case "rest":
                return faulty_rest(self.rest, self.s3, seed)
            case "glue":
                return faulty_glue(self.glue, self.s3, seed)
            case _:
                return faulty_nessie(self.nessie, self.rest, self.s3, seed)
