"""The index client and where it goes: addresses, credentials, and what stays private."""

import base64
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from common.index.client import IndexClient
from common.settings import Settings
from model.errors import IndexFault, IndexProblem
from tests.services.index import JSON, PASSWORD, Index, package_index, status
from tests.services.index_client import ask, metadata_of, only_file, page, problem, settings_for


@pytest.mark.parametrize("sign", ["@", "\\u0040"])
def test_index_page_with_credentials_in_file_urls_is_not_cached(
    index: Index, settings: Settings, sign: str
) -> None:
    index.add_wheel("parrot", "1.0")
    name = next(iter(index.files["parrot"]))
    index.facts[name]["url"] = f"http://me:SECRET{sign}127.0.0.1:{index.port}/files/parrot/{name}"
    _, body = index.page("parrot")
    body = body.replace(b"\\\\u0040", b"\\u0040")
    index.answers["/simple/parrot/"] = status(200, body, Content_Type=JSON, ETag='"1"')
    assert metadata_of(settings, only_file(settings)).source == "wheel-range"
    expected = "Basic " + base64.b64encode(b"me:SECRET").decode()
    assert index.seen[-1][1]["authorization"] == expected
    assert not list((settings.home / "cache").rglob("pages/*"))


def test_cached_pages_and_metadata_are_readable_only_by_the_owner(
    index: Index, settings: Settings
) -> None:
    secret = "Requires-Dist: seed @ https://me:SECRET@h.example/seed.whl?sig=SECRET\n"
    index.add_wheel("parrot", "1.0", metadata=secret)
    name = next(iter(index.files["parrot"]))
    index.facts[name]["url"] = f"/files/parrot/{name}"
    (settings.home / "cache" / "indexes").mkdir(mode=0o755, parents=True)
    read = metadata_of(settings, only_file(settings))
    assert "SECRET" in read.text
    again = metadata_of(settings, only_file(settings))
    assert "seed @ https://h.example/seed.whl\n" in again.text
    places = list((settings.home / "cache").rglob("*"))
    assert len(places) >= 6
    assert not [it for it in places if it.stat().st_mode & 0o077]


HOSTS = ["0177.0.0.1", "①②⑦.0.0.1", "u:p/w@127.0.0.1", "a..b", "xn--zz"]


@pytest.mark.parametrize("host", HOSTS)
def test_invalid_file_url_is_not_reported_as_a_broken_file(
    index: Index, settings: Settings, host: str
) -> None:
    index.add_wheel("parrot", "1.0")
    name = next(iter(index.files["parrot"]))
    index.facts[name]["url"] = f"http://{host}:9/{name}"
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    assert refused.value.code in (IndexFault.ADDRESS_REFUSED, IndexFault.UNREACHABLE)
    assert "p/w" not in str(refused.value)


def test_index_credentials_are_sent_only_to_that_index(tmp_path: Path) -> None:
    with package_index(json=True) as index, package_index(protected=False) as other:
        index.add_wheel("parrot", "1.0")
        other.add_wheel("parrot", "1.1")
        settings = settings_for(index, tmp_path, hosts="127.0.0.1")
        assert page(settings).files[0].version == "1.0"
        elsewhere = f"http://127.0.0.1:{other.port}/simple/parrot/"
        index.answers["/simple/parrot/"] = status(302, Location=elsewhere)
        assert page(settings).files[0].version == "1.1"
        assert "authorization" in index.seen[-1][1]
        assert "authorization" not in other.seen[-1][1]
        index.answers.clear()
        wrong = index.url.replace(PASSWORD, "wrong")
        refused = problem(replace(settings, package_indexes=(("own", wrong),)))
    assert (refused.code, refused.status) == (IndexFault.UNAUTHORIZED, 401)


def test_keyring_is_asked_only_after_an_index_refuses(tmp_path: Path) -> None:
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend
    from keyring.credentials import SimpleCredential

    class Ring(KeyringBackend):  # type: ignore[misc]
        priority = 1

        def get_credential(self, service: str, username: str | None) -> SimpleCredential:
            return SimpleCredential("reader", PASSWORD)

        def get_password(self, service: str, username: str) -> str:
            return PASSWORD

        def set_password(self, service: str, username: str, password: str) -> None:
            raise AssertionError("nothing is kept")

    before = keyring.get_keyring()
    keyring.set_keyring(Ring())
    try:
        with package_index(json=True) as index:
            index.add_wheel("parrot", "1.0")
            bare = index.url.replace(f"reader:{PASSWORD}@", "")
            settings = replace(settings_for(index, tmp_path), package_indexes=(("own", bare),))
            assert page(settings).files
            assert len(index.seen) == 2
    finally:
        keyring.set_keyring(before)


def test_index_client_sends_no_cookies(index: Index, settings: Settings, tmp_path: Path) -> None:
    with package_index(protected=False, json=True) as other:
        for served in (index, other):
            served.add_wheel("parrot", "1.0")
        elsewhere = f"http://127.0.0.1:{other.port}/simple/parrot/"
        cookie = "word=hidden; Path=/; Max-Age=9999"
        sent_on = status(302, Location=elsewhere, Set_Cookie=cookie)
        index.answers["/simple/parrot/"] = [sent_on, sent_on]
        named = settings_for(index, tmp_path, hosts="127.0.0.1")

        async def twice(client: IndexClient) -> None:
            for _ in range(2):
                await client.project("parrot", max_age_s=0)

        ask(named, twice)
        seen = [*index.seen, *other.seen]
        assert len(seen) == 4
        assert not any("cookie" in headers for _, headers in seen)


def test_redirect_to_another_port_of_the_index_host_is_refused(
    index: Index, settings: Settings, tmp_path: Path
) -> None:
    with package_index(protected=False) as other:
        other.add_wheel("parrot", "1.0")
        elsewhere = f"http://127.0.0.1:{other.port}/simple/parrot/"
        index.answers["/simple/parrot/"] = status(302, Location=elsewhere)
        assert problem(settings).code is IndexFault.ADDRESS_REFUSED
        assert other.seen == []
        named = settings_for(index, tmp_path, hosts="127.0.0.1")
        assert page(named).files


def test_redirect_to_another_name_of_the_index_host_is_followed(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0")
    elsewhere = f"http://localhost:{index.port}/simple/parrot/"
    index.answers["/simple/parrot/"] = [status(302, Location=elsewhere)]
    assert page(settings).files


def test_tls_error_is_not_retried(tmp_path: Path, index: Index) -> None:
    url = f"https://127.0.0.1:{index.port}/simple"
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", url),))
    refused = problem(settings)
    assert (refused.code, refused.retryable) == (IndexFault.UNREACHABLE, False)


def test_index_client_uses_the_proxy_of_the_environment(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add_wheel("parrot", "1.0")
    kind, body = index.page("parrot")
    url = "http://index.example/simple"
    index.answers[f"{url}/parrot/"] = status(200, body, Content_Type=kind)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{index.port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", url),))
    assert page(settings).files
    index.answers[f"{url}/parrot/"] = status(302, Location="http://10.0.0.1/")
    assert problem(settings).code is IndexFault.ADDRESS_REFUSED


def test_a_file_at_a_private_address_is_not_fetched(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    name = "parrot-1.0-py3-none-any.whl"
    for url in ("http://192.168.0.1/x.whl", "file:///etc/passwd"):
        index.facts[name]["url"] = url
        with pytest.raises(IndexProblem) as refused:
            metadata_of(settings, only_file(settings))
        assert refused.value.code is IndexFault.ADDRESS_REFUSED


def test_folder_of_wheels_is_read_as_an_index(index: Index, tmp_path: Path) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n")
    index.add_wheel("crow", "1.0")
    folder = tmp_path / "wheels"
    folder.mkdir()
    for files in index.files.values():
        for name, data in files.items():
            (folder / name).write_bytes(data)
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", folder.as_uri()),))
    (file,) = page(settings).files
    assert (file.version, file.sha256) == (
        "1.0",
        hashlib.sha256(index.files["parrot"][file.filename]).hexdigest(),
    )
    assert "seed" in metadata_of(settings, file).text
    assert problem(settings, "gull").code is IndexFault.NOT_FOUND
    assert index.seen == []


def test_folder_of_index_pages_is_read_only_below_its_root(index: Index, tmp_path: Path) -> None:
    index.add_wheel("parrot", "1.0")
    name, data = next(iter(index.files["parrot"].items()))
    project = tmp_path / "web" / "simple" / "parrot"
    packages = tmp_path / "web" / "simple" / "packages"
    project.mkdir(parents=True)
    packages.mkdir()
    (packages / name).write_bytes(data)
    (tmp_path / "web" / name).write_bytes(data)
    link = project / "index.html"
    link.write_text(f'<a href="../packages/{name}">{name}</a>')
    root = (tmp_path / "web" / "simple").as_uri()
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", root),))
    assert metadata_of(settings, only_file(settings)).source == "wheel"
    (packages / "away").symlink_to(tmp_path / "web")
    for outside in (f"../../{name}", f"../packages/away/{name}"):
        link.write_text(f'<a href="{outside}">{name}</a>')
        assert _refusal(settings) is IndexFault.ADDRESS_REFUSED
    link.rename(tmp_path / "web" / "page.html")
    link.symlink_to(tmp_path / "web" / "page.html")
    assert problem(settings).code is IndexFault.ADDRESS_REFUSED


def test_link_out_of_a_folder_index_is_refused(index: Index, tmp_path: Path) -> None:
    index.add_wheel("parrot", "1.0")
    name, data = next(iter(index.files["parrot"].items()))
    (tmp_path / name).write_bytes(data)
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / name)
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", folder.as_uri()),))
    assert only_file(settings).sha256 is None
    assert _refusal(settings) is IndexFault.ADDRESS_REFUSED


def _refusal(settings: Settings) -> IndexFault:
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    return refused.value.code
