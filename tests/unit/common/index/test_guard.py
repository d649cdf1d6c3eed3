"""Which addresses count as public."""

from __future__ import annotations

import pytest

from common.http.addresses import AddressGuard, is_public, refused_address
from model.errors import IndexProblem


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1", "fe80::1%eth0",
     "fd00::1", "::ffff:192.168.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "ff02::1",
     "64:ff9b:1::a00:1", "64:ff9b:1::9.9.9.9", "fec0::1", "::127.0.0.1", "::9.9.9.9",
     "::ffff:0:7f00:1", "5f00::1", "100::1", "4000::1", "2001:db8::1", "2002:a00:1::"],
)  # fmt: skip
def test_private_addresses_are_private_however_they_are_written(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are_public() -> None:
    assert is_public("9.9.9.9")
    assert is_public("2620:fe::9")
    assert is_public("::ffff:9.9.9.9")
    assert is_public("64:ff9b::9.9.9.9")
    assert is_public("2002:909:909::1")


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "127.1", "0x7f000001", "localhost", "a.localhost", "localhost.", "A.LocalHost.",
     "10.0.0.1.", "fec0::1"],
)  # fmt: skip
def test_a_proxy_is_not_asked_for_what_is_written_as_private(host: str) -> None:
    guard = AddressGuard("https://index.example/simple", ())
    with pytest.raises(IndexProblem):
        guard.check_literal(host, 443)
    AddressGuard("https://index.example/simple", (host,)).check_literal(host, 443)
    guard.check_literal("files.example", 443)
    guard.check_literal("files.example.", 443)


@pytest.mark.parametrize("host", ["10.0.0.1", "127.1", "localhost", "localhost."])
def test_a_proxy_is_asked_for_the_indexs_own_host(host: str) -> None:
    AddressGuard(f"https://{host}:444/simple", ()).check_literal(host, 444)


def test_a_refusal_does_not_repeat_a_long_name() -> None:
    assert len(str(refused_address("x" * 8_000))) < 400
