"""Which indexes there are, which addresses are public, and that nobody learns passwords."""

from pathlib import Path

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from common.http.addresses import AddressGuard, is_public, refused_address
from common.index.configuration import Index, configured_indexes, index_of
from common.settings import Settings
from model.errors import IndexProblem, InvalidArgument, InvalidSettings


def indexes(home: Path, said: str = "", **environ: str) -> dict[str, Index]:
    settings = Settings.from_env({"THOTH_HOME": str(home), "PACKAGE_INDEXES": said})
    return configured_indexes(settings, {"HOME": str(home)} | environ)


def test_public_index_is_the_default(tmp_path: Path) -> None:
    assert indexes(tmp_path)["pypi"].url == PYPI_SIMPLE_ENDPOINT.rstrip("/")
    assert indexes(tmp_path, UV_NO_INDEX="1") == {}


def test_index_setting_overrides_uv_which_overrides_pip(tmp_path: Path) -> None:
    pip = {"PIP_INDEX_URL": "https://pip.example/simple/"}
    uv = {"UV_DEFAULT_INDEX": "main=https://uv.example/simple/"}
    assert indexes(tmp_path, **pip)["pypi"].url == "https://pip.example/simple"
    assert indexes(tmp_path, **pip, **uv)["pypi"].url == "https://uv.example/simple"
    said = indexes(tmp_path, "pypi-org=https://said.example", **pip, **uv)
    assert said["pypi"].url == "https://said.example"


def test_indexes_are_read_from_configuration_files_of_uv_and_pip(tmp_path: Path) -> None:
    uv = tmp_path / ".config" / "uv" / "uv.toml"
    uv.parent.mkdir(parents=True)
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip" / "pip.conf").write_text("[global]\nindex-url = https://pip.example/s\n")
    assert indexes(tmp_path)["pypi"].url == "https://pip.example/s"
    uv.write_text(
        '[[index]]\nname = "fast"\nurl = "https://fast.example/s"\n'
        '[[index]]\nurl = "https://main.example/s"\ndefault = true\n'
    )
    found = indexes(tmp_path)
    assert {name: it.url for name, it in found.items()} == {
        "pypi": "https://main.example/s",
        "fast": "https://fast.example/s",
    }


def test_folder_of_wheels_can_be_configured_as_an_index(tmp_path: Path) -> None:
    found = indexes(tmp_path, f"tree={tmp_path.as_uri()}", PIP_FIND_LINKS=f"{tmp_path} /no/such")
    assert found["find-links"] == Index("find-links", tmp_path.as_uri())
    assert found["tree"].is_local
    assert list(found) == ["pypi", "find-links", "tree"]


def test_index_credentials_are_read_from_urls_netrc_and_uv_variables(tmp_path: Path) -> None:
    said = "a=https://me:p%40ss@a.example/s b-b=https://b.example c=https://c.example:8443/s"
    (tmp_path / ".netrc").write_text("machine c.example login you password secret\n")
    found = indexes(tmp_path, said, UV_INDEX_B_B_USERNAME="u", UV_INDEX_B_B_PASSWORD="w")
    assert found["a"].auth == ("me", "p@ss")
    assert found["b-b"].auth == ("u", "w")
    assert found["c"].auth == ("you", "secret")
    assert found["a"].url == "https://a.example/s"
    assert "p@ss" not in repr(found)


def test_unconfigured_index_is_refused(tmp_path: Path) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path), "PACKAGE_INDEXES": "a=https://x"})
    assert index_of(settings, "pypi-org", {}).name == index_of(settings, None, {}).name == "pypi"
    for name in ("b", "https://other.example/simple"):
        with pytest.raises(InvalidArgument, match="configured: pypi, a"):
            index_of(settings, name, {})


def test_invalid_index_url_is_refused_without_its_value(tmp_path: Path) -> None:
    for address in ("https://me:hidden@host:port/s", "ftp://hidden.example"):
        with pytest.raises(InvalidSettings) as refused:
            indexes(tmp_path, PIP_INDEX_URL=address)
        assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1", "fe80::1%eth0",
     "fd00::1", "::ffff:192.168.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "ff02::1",
     "64:ff9b:1::a00:1", "64:ff9b:1::9.9.9.9", "fec0::1", "::127.0.0.1", "::9.9.9.9",
     "::ffff:0:7f00:1", "5f00::1", "100::1", "4000::1", "2001:db8::1", "2002:a00:1::"],
)  # fmt: skip
def test_private_addresses_are_recognised_in_every_notation(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are_recognised() -> None:
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
def test_private_ip_address_is_refused_even_behind_a_proxy(host: str) -> None:
    guard = AddressGuard("https://index.example/simple", ())
    with pytest.raises(IndexProblem):
        guard.check_literal(host, 443)
    AddressGuard("https://index.example/simple", (host,)).check_literal(host, 443)
    guard.check_literal("files.example", 443)
    guard.check_literal("files.example.", 443)


@pytest.mark.parametrize("host", ["10.0.0.1", "127.1", "localhost", "localhost."])
def test_private_address_of_the_configured_index_is_allowed(host: str) -> None:
    AddressGuard(f"https://{host}:444/simple", ()).check_literal(host, 444)


def test_refusal_of_an_address_does_not_repeat_a_long_host_name() -> None:
    assert len(str(refused_address("x" * 8_000))) < 400
