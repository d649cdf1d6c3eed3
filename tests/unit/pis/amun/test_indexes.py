"""Which index is asked, and that nobody learns its password."""

from pathlib import Path

import pytest

from model.packages.identity import public_index_url
from model.redaction import without_credentials
from pis.amun.installer import installer_environment
from pis.amun.locks import index_name


def test_installer_prefers_the_configuration_of_uv_to_that_of_pip(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "UV_INDEX_URL": "https://own.example/simple"}
    assert installer_environment("pypi", {}, environ)["UV_INDEX_URL"] == environ["UV_INDEX_URL"]
    environ = {"HOME": str(tmp_path), "PIP_FIND_LINKS": f"/no/such/folder {tmp_path}"}
    assert installer_environment("pypi", {}, environ)["UV_FIND_LINKS"] == str(tmp_path)
    (tmp_path / ".config" / "uv").mkdir(parents=True)
    (tmp_path / ".config" / "uv" / "uv.toml").touch()
    environ = {"HOME": str(tmp_path), "PIP_INDEX_URL": "https://pip.example"}
    assert "UV_DEFAULT_INDEX" not in installer_environment("pypi", {}, environ)


def test_installer_uses_the_pip_configuration_if_uv_has_none(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "pip"
    config.mkdir(parents=True)
    (config / "pip.conf").write_text(
        "[global]\nindex-url = https://file.example/simple\nextra-index-url = https://more.example\n"
    )
    environ = {"HOME": str(tmp_path), "PIP_EXTRA_INDEX_URL": "https://said.example"}
    made = installer_environment("pypi", {}, environ)
    assert made["UV_DEFAULT_INDEX"] == "https://file.example/simple"
    assert made["UV_INDEX"] == "https://said.example"


def test_installer_uses_only_the_index_that_the_request_names(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "UV_INDEX": "https://more.example",
        "UV_FIND_LINKS": "/wheels",
        "PIP_INDEX_URL": "https://pip.example",
    }
    made = installer_environment("own", {"own": "https://own.example"}, environ)
    assert made["UV_DEFAULT_INDEX"] == "https://own.example"
    assert not {"UV_INDEX", "UV_FIND_LINKS"} & made.keys()


def test_installer_gets_only_the_variables_that_it_needs(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "VIRTUAL_ENV": "/elsewhere",
        "PYTHONPATH": "/x",
        "UV_PYTHON": "3.8",
        "UV_NO_VERIFY_HASHES": "1",
        "UV_NO_BINARY": "1",
    }
    made = installer_environment("pypi", {}, environ)
    assert not (environ.keys() - {"HOME"}) & made.keys()
    kept = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin",
        "https_proxy": "http://proxy.example",
        "NO_PROXY": "localhost",
        "XDG_CACHE_HOME": "/cache",
        "REQUESTS_CA_BUNDLE": "/certificates",
        "UV_INDEX_OWN_USERNAME": "me",
        "UV_INDEX_OWN_PASSWORD": "word",
    }
    other = {"TOKEN": "secret", "RUST_LOG": "trace", "PIP_TIMEOUT": "3", "LD_PRELOAD": "/x.so"}
    made = installer_environment("pypi", {}, kept | other)
    assert kept.items() <= made.items()
    assert not other.keys() & made.keys()


@pytest.mark.parametrize("credentials", ["me:p@ss", "u:pa/ss", "u:p@s/s@", "token"])
def test_complete_password_is_removed_from_urls(credentials: str) -> None:
    text = f"'https://{credentials}@host/simple' and https://{credentials}@h/x, of c@d.example"
    assert without_credentials(text) == "'https://…@host/simple' and https://…@h/x, of c@d.example"


def test_index_is_named_by_its_url_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = {"own": "https://me:pass@own.example/simple"}
    assert index_name("https://own.example/simple/", indexes) == "own"
    other = "https://other.example/simple"
    assert index_name("https://me:pass@other.example/simple", indexes) == other
    assert index_name(f"{public_index_url()}/", indexes) == "pypi"
    monkeypatch.setenv("UV_DEFAULT_INDEX", other)
    assert index_name(f"{other}/", indexes) == "pypi"
    assert index_name(None, indexes) == "pypi"
