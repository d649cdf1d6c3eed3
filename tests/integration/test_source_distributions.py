"""Packages that publish only source distributions: advised, locked, built in the sandbox."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph.engine import Stores
from model.packages.environments import host_environment
from pis.amun import sandbox
from tests.requirements import needs
from tests.services.commands import thoth
from tests.services.index import Index, package_index

#: The metadata is built for this host.
HERE = ("--python", host_environment().python_version)
PYPROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
#: A backend whose metadata says ``lines`` and whether it has a network.
BACKEND = """
import os, pathlib, socket
def prepare_metadata_for_build_wheel(folder, settings):
    print("noise on standard output")
    try:
        socket.create_connection(("127.0.0.1", {port}), 1)
    except OSError:
        pass
    else:
        raise SystemExit("there is a network")
    target = pathlib.Path(folder, "{name}-1.0.dist-info")
    target.mkdir()
    text = "Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n" + {lines!r}
    (target / "METADATA").write_text(text)
    return target.name
"""
#: A backend that makes a wheel.
WHEEL_BACKEND = """
import pathlib, zipfile
def build_wheel(folder, settings=None, metadata=None):
    name = "own-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.writestr("own.py", "")
        text = "Metadata-Version: 2.1\\nName: own\\nVersion: 1.0\\nRequires-Dist: lib<2\\n"
        wheel.writestr("own-1.0.dist-info/METADATA", text)
        text = "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr("own-1.0.dist-info/WHEEL", text)
        wheel.writestr("own-1.0.dist-info/RECORD", "")
    return name
"""
STATIC = "Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n"


@pytest.fixture
def index() -> Iterator[Index]:
    """``certain`` and ``likely`` say what they require; ``dynamic`` does not."""
    with package_index(protected=False, json=True, ranges=True, validators=True) as made:
        made.add_wheel("lib", "1.0")
        made.add_wheel("lib", "2.0")
        text = STATIC.format(name="certain", version="1.0")
        made.add_source("certain", "1.0", information=f"{text}Requires-Dist: lib<2\n")
        made.add_source(
            "likely",
            "1.0",
            information="Metadata-Version: 1.2\nName: likely\nVersion: 1.0\n",
            more={"likely.egg-info/requires.txt": "lib>=2\n"},
        )
        port = int(made.url.split(":")[2].split("/")[0])
        backend = BACKEND.format(port=port, name="dynamic", lines="Requires-Dist: lib<2\n")
        made.add_source("dynamic", "1.0", more={"pyproject.toml": PYPROJECT, "backend.py": backend})
        yield made


def advise(
    stores: Stores, index: Index, folder: Path, manifest: str, *options: str
) -> subprocess.CompletedProcess[str]:
    (folder / "requirements.in").write_text(manifest, encoding="utf-8")
    arguments = ("advise", str(folder), *HERE, *options)
    return thoth(stores.settings, *arguments, PACKAGE_INDEXES=f"pypi={index.url}")


def stack(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Versions by name, and messages about source distributions by name."""
    report: dict[str, Any] = json.loads(done.stdout)
    (product,) = report["result"]["report"]["products"]
    notes: dict[str, list[str]] = {}
    for it in product["justification"]:
        if it["code"] in ("built_from_sdist", "requirements_likely"):
            notes.setdefault(it["package_name"], []).append(it["message"])
    return {it["name"]: it["version"] for it in product["packages"]}, notes


def test_advice_says_whether_source_requirements_are_certain_or_likely(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    versions, notes = stack(advise(stores, index, tmp_path, "certain\n", "--json"))
    assert versions == {"certain": "1.0", "lib": "1.0"}
    (message,) = notes["certain"]
    text = "because it has no wheel for this environment; its requirements are certain"
    assert message.endswith(text)
    versions, notes = stack(advise(stores, index, tmp_path, "likely\n", "--json"))
    assert versions == {"likely": "1.0", "lib": "2.0"}
    assert "its requirements are likely, not certain" in notes["likely"][1]


def test_advice_from_the_record_equals_advice_from_the_index(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    first = advise(stores, index, tmp_path, "likely\ncertain\nlib\n", "--json")
    assert first.returncode == 1
    first = advise(stores, index, tmp_path, "likely\n", "--json")
    again = advise(stores, index, tmp_path, "likely\n", "--json", "--offline")
    assert stack(again) == stack(first)


def test_lock_with_a_source_distribution_is_installed_with_hashes(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    text = STATIC.format(name="own", version="1.0")
    files = {"pyproject.toml": PYPROJECT, "backend.py": WHEEL_BACKEND}
    index.add_source("own", "1.0", information=f"{text}Requires-Dist: lib<2\n", more=files)
    lock = tmp_path / "requirements.txt"
    done = advise(stores, index, tmp_path, "own\n", "-o", str(lock))
    assert done.returncode == 0, done.stderr
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "--isolated", "install", "--require-hashes", "--no-cache-dir",
         "--disable-pip-version-check", "--target", str(tmp_path / "there"),
         "--index-url", index.url, "-r", str(lock)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    assert {it.name for it in (tmp_path / "there").glob("*.dist-info")} == {
        "own-1.0.dist-info", "lib-1.0.dist-info",
    }  # fmt: skip


def test_version_with_dynamic_requirements_is_no_candidate_without_a_build(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    done = advise(stores, index, tmp_path, "dynamic\n")
    assert done.returncode == 1
    assert "`thoth advise --build` builds its metadata in a sandbox" in done.stdout.replace(
        "\n", " "
    )


def test_source_distribution_above_the_size_limit_is_reported_as_unknown(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    """Commands say so; with a higher limit, the file is read."""
    text = f"{STATIC.format(name='huge', version='1.0')}Requires-Dist: lib<2\n"
    index.add_source("huge", "1.0", random.Random(1).randbytes(1 << 20).hex(), information=text)
    (tmp_path / "requirements.in").write_text("huge\n", encoding="utf-8")

    def run(*arguments: str, limit: str = "1") -> subprocess.CompletedProcess[str]:
        more = {"PACKAGE_INDEXES": f"pypi={index.url}", "INDEX_ARCHIVE_MB": limit}
        return thoth(stores.settings, *arguments, *HERE, **more)

    for options in ((), ("--offline",)):
        done = run("advise", str(tmp_path), *options)
        assert done.returncode == 3, done.stderr
        assert "huge 1.0 does not count: its metadata was not read" in done.stdout
        done = run("why-not", "huge>0", str(tmp_path), *options)
        assert done.returncode == 3, done.stderr
        assert "huge>0: unknown, no stack of the versions that were read meets" in done.stdout
    assert stack(run("advise", str(tmp_path), "--json", limit="64"))[0] == {
        "huge": "1.0",
        "lib": "1.0",
    }


@needs("bwrap")
def test_sandboxed_build_reveals_dynamic_requirements(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    done = advise(stores, index, tmp_path, "dynamic\n", "--build", "--json")
    versions, notes = stack(done)
    assert versions == {"dynamic": "1.0", "lib": "1.0"}, done.stderr
    (message,) = notes["dynamic"]
    assert message.endswith("its requirements are from a build in this environment")
    identifier = json.loads(done.stdout)["metadata"]["document_id"]
    replayed = thoth(stores.settings, "replay", identifier)
    assert replayed.returncode == 0, replayed.stderr
    # A build says nothing of other environments, so the record does not have it.
    again = advise(stores, index, tmp_path, "dynamic\n", "--offline")
    assert again.returncode == 1


@pytest.mark.slow
@needs("bwrap")
def test_build_confirms_or_corrects_likely_requirements(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    backend = BACKEND.format(port=1, name="guess", lines="Requires-Dist: lib<2\n")
    index.add_source(
        "guess",
        "1.0",
        information="Metadata-Version: 1.2\nName: guess\nVersion: 1.0\nRequires-Dist: lib\n",
        more={"pyproject.toml": PYPROJECT, "backend.py": backend},
    )
    assert stack(advise(stores, index, tmp_path, "guess\n", "--json"))[0]["lib"] == "2.0"
    versions, notes = stack(advise(stores, index, tmp_path, "guess\n", "--build", "--json"))
    assert versions["lib"] == "1.0"
    assert len(notes["guess"]) == 1


@pytest.mark.slow
@needs("bwrap")
def test_failed_metadata_build_is_reported_and_read_metadata_used(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    index.add_source(
        "broken",
        "1.0",
        information="Metadata-Version: 1.2\nName: broken\nVersion: 1.0\nRequires-Dist: lib\n",
        more={"pyproject.toml": PYPROJECT, "backend.py": "raise RuntimeError('not today')\n"},
    )
    done = advise(stores, index, tmp_path, "broken\n", "--build", "--json")
    assert "not built: broken 1.0: its build failed: RuntimeError: not today" in done.stderr
    assert stack(done)[0] == {"broken": "1.0", "lib": "2.0"}


@pytest.mark.slow
@needs("bwrap")
@pytest.mark.parametrize(
    ("pyproject", "message"),
    [
        ("[build-system", "its pyproject.toml is broken"),
        ("[build-system]\nrequires = 1\n", "the table build-system is invalid"),
        (
            '[build-system]\nrequires = ["b @ file:///etc/passwd"]\nbuild-backend = "b"\n',
            "its build backend requires b by address",
        ),
        (
            '[build-system]\nrequires = []\nbuild-backend = "nothing.there"\n',
            "No module named 'nothing'",
        ),
    ],
)
def test_unusable_build_backend_is_reported(
    stores: Stores, index: Index, tmp_path: Path, pyproject: str, message: str
) -> None:
    index.add_source("odd", "1.0", more={"pyproject.toml": pyproject})
    done = advise(stores, index, tmp_path, "odd\n", "--build")
    assert done.returncode == 1
    assert "not built: odd 1.0: " in done.stderr
    assert message in done.stderr


def test_nothing_is_built_without_a_sandbox(stores: Stores, index: Index, tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("dynamic\n", encoding="utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    done = thoth(
        stores.settings, "advise", str(tmp_path), *HERE, "--build",
        PACKAGE_INDEXES=f"pypi={index.url}", PATH=str(programs),
    )  # fmt: skip
    assert done.returncode == 2
    assert "source distributions are built only in a sandbox, and there is none" in done.stderr
    assert "bwrap is not installed" in done.stderr
    assert sandbox._INSTALL in done.stderr
    assert index.paths == []


@pytest.mark.slow
@needs("bwrap")
def test_metadata_build_for_another_platform_is_refused(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    done = advise(stores, index, tmp_path, "dynamic\n", "--build", "--platform", "win_amd64")
    assert done.returncode == 2
    assert "--build builds on this machine" in done.stderr
