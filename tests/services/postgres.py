"""PostgreSQL: the embeddable build from Maven, or an installed one. It runs without root."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.provision import maven
from tests.provision.cache import Unavailable, fetch_once
from tests.services.processes import HOST, DidNotStart, free_port, running

_VERSION = "16.6.0"
_USER, _DATABASE = "icemirror", "postgres"
_NOBODY = "nobody"


@dataclass(frozen=True)
class Postgres:
    """A running PostgreSQL server."""

    port: int

    @property
    def uri(self) -> str:
        """Return the URI for SQLAlchemy."""
        return f"postgresql+psycopg2://{_USER}@{HOST}:{self.port}/{_DATABASE}"

    def connect(self, database: str = _DATABASE, **settings: str) -> Any:
        """Return a psycopg2 connection; psycopg2 ships no types."""
        import psycopg2

        options = " ".join(f"-c{name}={value}" for name, value in settings.items())
        return psycopg2.connect(host=HOST, port=self.port, user=_USER, dbname=database, options=options)


def binaries() -> Path:
    """Return the folder with initdb and postgres."""
    try:
        return _embedded() / "bin"
    except Unavailable as error:
        installed = sorted(
            Path("/").glob("usr/lib/postgresql/*/bin"), key=lambda folder: int(folder.parent.name)
        )
        on_path = shutil.which("initdb")
        folder = installed[-1] if installed else Path(on_path).parent if on_path else None
        if folder is None:
            raise Unavailable(
                f"PostgreSQL is not installed, and not available from Maven: {error}"
            ) from error
        return folder


def _embedded() -> Path:
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}.get(
        platform.machine().lower()
    )
    if system is None or machine is None:
        raise Unavailable(f"no embeddable PostgreSQL for {sys.platform} on {platform.machine()}")
    name = f"embedded-postgres-binaries-{system}-{machine}"

    def unpack(scratch: Path) -> Path:
        with zipfile.ZipFile(maven.jar(f"io.zonky.test.postgres:{name}:{_VERSION}")) as jar:
            (archive,) = [entry for entry in jar.namelist() if entry.endswith(".txz")]
            jar.extract(archive, scratch)
        with tarfile.open(scratch / archive) as packed:
            packed.extractall(scratch / "postgres", filter="data")
        return scratch / "postgres"

    return fetch_once(f"servers/{name}-{_VERSION}", unpack)


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """Run a separate cluster on localhost, without a password."""
    server = Postgres(free_port())
    with _home(folder) as (home, prefix):
        programs = _reachable(binaries(), home) if prefix else binaries()
        data = home / "data"
        options = ["-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", str(data)]
        created = subprocess.run(
            [*prefix, str(programs / "initdb"), *options],
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        if created.returncode != 0:
            raise DidNotStart(f"initdb: {created.stdout}{created.stderr}")
        settings = [f"-p{server.port}", f"-h{HOST}", f"-k{home}", "-cfsync=off", "-cwal_level=logical"]
        command = [*prefix, str(programs / "postgres"), "-D", str(data), *settings]
        with running(command, folder / "postgres.log", lambda: _accepts_queries(server), cwd=home):
            yield server


@contextmanager
def _home(folder: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    """Return the folder for PostgreSQL's files, and the prefix of its commands.

    PostgreSQL refuses to run as root. If the tests run as root (in a container), it runs as another user, in a folder
    that this user can access. pytest's folders do not qualify: every new pytest session closes them to other users.
    """
    if os.geteuid() != 0:
        yield folder, ()
        return
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise Unavailable("PostgreSQL does not run as root, and setpriv is missing")
    nobody = pwd.getpwnam(_NOBODY)
    with tempfile.TemporaryDirectory(prefix="icemirror-postgres-") as home:
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        yield (
            Path(home),
            (setpriv, f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"),
        )


def _reachable(programs: Path, folder: Path) -> Path:
    """Copy programs out of root's cache, which other users cannot read."""
    if not programs.is_relative_to(Path.home()):
        return programs
    return shutil.copytree(programs.parent, folder / "postgres", symlinks=True) / programs.name


def _accepts_queries(server: Postgres) -> bool:
    import psycopg2

    try:
        server.connect().close()
    except psycopg2.OperationalError:
        return False
    return True
