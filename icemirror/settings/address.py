"""A network address to listen on: `host:port`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BeforeValidator, InstanceOf, PlainSerializer, WithJsonSchema

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address from `127.0.0.1:9464`, `localhost:9464` or `[::1]:9464`."""
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise ValueError(
                f"{text!r} is not an address: write host:port, such as 127.0.0.1:9464 "
                "(0.0.0.0:9464 for every interface)"
            )
        if (port := int(match["port"])) > 65535:
            raise ValueError(f"{text!r} is not an address: the port must be at most 65535")
        return cls(match["host"].strip("[]"), port)

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _parse(value: object) -> Address:
    match value:
        case Address():
            return value
        case str():
            return Address.parse(value)
        case _:
            raise ValueError("expected an address such as 127.0.0.1:9464")


ListenAddress = Annotated[
    InstanceOf[Address],
    BeforeValidator(_parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": r"^.+:\d{1,5}$", "examples": ["127.0.0.1:9464"], "x-type": "host:port"}
    ),
]
"""An `Address`, written `host:port`."""
