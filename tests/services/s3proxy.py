"""S3Proxy: the S3 protocol, including signatures, with its data in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import S3FileSystem

from tests.provision import maven
from tests.services.processes import HOST, answers, free_port, java, running

JAR = "org.gaul:s3proxy:4.1.0:jar:jar-with-dependencies"
ACCESS_KEY, SECRET_KEY, REGION = "local-access-key", "local-secret-key", "us-east-1"


@dataclass(frozen=True)
class S3Proxy:
    """A running S3Proxy."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def properties(self, endpoint: str | None = None) -> dict[str, str]:
        """Return the PyIceberg properties of this server, or of a proxy in front of it."""
        return {
            "s3.endpoint": endpoint or self.endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
        }

    def make_bucket(self, name: str) -> str:
        """Create an empty bucket and return its URI. A name has at least three letters."""
        S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=self.endpoint,
            region=REGION,
            allow_bucket_creation=True,
        ).create_dir(name)
        return f"s3://{name}"


@contextmanager
def s3proxy(folder: Path) -> Iterator[S3Proxy]:
    """Run S3Proxy with its data in a folder."""
    port = free_port()
    (folder / "objects").mkdir()
    settings = folder / "s3proxy.conf"
    settings.write_text(
        f"""s3proxy.endpoint=http://{HOST}:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={ACCESS_KEY}
s3proxy.credential={SECRET_KEY}
s3proxy.ignore-unknown-headers=true
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={folder / "objects"}
"""
    )
    jar = maven.jar(JAR)
    command = [*java(17), "-Xmx512m", "-jar", str(jar), "--properties", str(settings)]
    server = S3Proxy(port)
    with running(command, folder / "s3proxy.log", lambda: answers(server.endpoint)):
        yield server
