"""Names of packages are sent to the indexes that a project names, and to no other."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from graph.engine import Stores
from model.packages.identity import name_of_index
from tests.services.commands import WHERE, thoth
from tests.services.index import Index, package_index


@pytest.fixture
def indexes() -> Iterator[tuple[Index, Index]]:
    """The default index and a private one, with different files of ``lib``."""
    facts = {"protected": False, "json": True, "ranges": True, "validators": True}
    with package_index(**facts) as default, package_index(**facts) as private:
        default.add_wheel("lib", "1.0")
        private.add_wheel("lib", "2.0")
        yield default, private


def pipfile(folder: Path, url: str) -> Path:
    """A project whose only source has the name of the default index, and is another."""
    (folder / "Pipfile").write_text(
        f"[[source]]\nname = 'pypi'\nurl = '{url}'\n[packages]\nlib = '*'\n", encoding="utf-8"
    )
    return folder


def lock(folder: Path, url: str, version: str, digest: str) -> Path:
    """Its lock."""
    entry = {"version": f"=={version}", "index": "pypi", "hashes": [f"sha256:{digest}"]}
    sources = [{"name": "pypi", "url": url, "verify_ssl": True}]
    content = {"_meta": {"sources": sources}, "default": {"lib": entry}, "develop": {}}
    (folder / "Pipfile.lock").write_text(json.dumps(content), encoding="utf-8")
    return folder / "Pipfile.lock"


def test_index_is_not_replaced_by_another_index_of_its_name(
    stores: Stores, indexes: tuple[Index, Index], tmp_path: Path
) -> None:
    default, private = indexes
    at = {"PACKAGE_INDEXES": f"pypi={default.url}"}
    project = pipfile(tmp_path, private.url)
    output = tmp_path / "out" / "Pipfile.lock"
    output.parent.mkdir()
    arguments = ("advise", str(project), *WHERE, "--type", "latest")
    done = thoth(stores.settings, *arguments, **at)
    assert done.returncode == 3, done.stderr
    name = name_of_index(private.url)
    assert f"PACKAGE_INDEXES=\"$PACKAGE_INDEXES\"' {name}={private.url}'" in done.stdout
    locked = lock(tmp_path, private.url, "1.0", "0" * 64)
    done = thoth(stores.settings, "provenance", str(locked), "--live", **at)
    assert done.returncode == 1
    assert "SOURCE-NOT-WHITELISTED" in done.stdout
    assert "no configured index" not in done.stdout
    assert (default.paths, private.paths) == ([], [])
    (tmp_path / "Pipfile.lock").unlink()
    done = thoth(stores.settings, *arguments, "--index-from-project", "-o", str(output), **at)
    assert done.returncode == 0, done.stderr
    assert f"reads the project's index pypi at {private.url}" in done.stderr
    written = json.loads(output.read_text("utf-8"))
    assert [it["url"] for it in written["_meta"]["sources"]] == [private.url]
    assert written["default"]["lib"]["version"] == "==2.0"
    done = thoth(stores.settings, "provenance", str(output), "--live", "--index-from-project", **at)
    assert "lib" not in done.stdout, done.stdout
    assert default.paths == []


def test_version_from_an_unread_index_is_not_reported_as_missing(
    stores: Stores, indexes: tuple[Index, Index], tmp_path: Path
) -> None:
    default, private = indexes
    at = {"PACKAGE_INDEXES": f"pypi={default.url} own={private.url}"}
    locked = tmp_path / "requirements.txt"
    locked.write_text(f"lib==1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    for more, words in (
        ((), ("FILES-UNKNOWN", "was not read from any index", "--live")),
        (("--live",), ("INVALID-ARTIFACT-HASH",)),
    ):
        done = thoth(stores.settings, "provenance", str(locked), *more, **at)
        assert done.returncode == 1
        assert all(it in done.stdout for it in words), done.stdout


def test_live_provenance_names_a_first_index_that_it_must_not_read(
    stores: Stores, indexes: tuple[Index, Index], tmp_path: Path
) -> None:
    default, private = indexes
    locked = tmp_path / "requirements.txt"
    locked.write_text(
        f"--extra-index-url {private.url}\nlib==2.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8"
    )
    at = {"PACKAGE_INDEXES": f"pypi={default.url}"}
    done = thoth(stores.settings, "provenance", str(locked), "--live", **at)
    (line,) = [it for it in done.stdout.splitlines() if "FILES-UNKNOWN" in it]
    assert f"({private.url}) comes first and is not configured" in line
    assert "PACKAGE_INDEXES" in line
    assert "--live" not in line
    assert (default.paths, private.paths) == ([], [])
    at = {"PACKAGE_INDEXES": f"pypi={default.url} own={private.url}"}
    done = thoth(stores.settings, "provenance", str(locked), "--live", **at)
    assert "INVALID-ARTIFACT-HASH" in done.stdout
    assert private.paths
    assert default.paths == []
