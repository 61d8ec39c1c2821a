from __future__ import annotations

import pytest

from icemirror.settings.address import Address


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:9464", Address("127.0.0.1", 9464), True),
        ("localhost:80", Address("localhost", 80), True),
        ("[::1]:9464", Address("::1", 9464), True),
        ("0.0.0.0:0", Address("0.0.0.0", 0), False),  # noqa: S104
        ("metrics.example.com:9464", Address("metrics.example.com", 9464), False),
    ],
)
def test_address_has_a_host_and_a_port(text: str, address: Address, loopback: bool) -> None:
    assert Address.parse(text) == address
    assert str(address) == text
    assert address.is_loopback is loopback


@pytest.mark.parametrize(
    "text", ["", "9464", ":9464", "host", "host:", "host:x", "host:70000", "http://h:1", "::1:80"]
)
def test_text_without_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        Address.parse(text)
