"""``thoth fix``: what an archive of advisories says of a lock, the fix, and who blocks more."""

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from adviser.fix import UNINVITED
from cli.project_files import read_project
from graph.engine import Stores
from ingest.advisories.sync import sync_source
from tests.factories.advisories import HIGH, affected, osv, write_archive
from tests.requirements import needs
from tests.services.commands import thoth
from tests.services.index import Index, package_index

TOOLS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
RELEASES = (
    ("app", "1.0", ("lib<3", "core<2")), ("app", "2.0", ("lib>=2", "core<2", "new")),
    ("lib", "1.0", ()), ("lib", "2.0", ()), ("lib", "2.1", ()), ("lib", "3.0", ()),
    ("core", "1.0", ()), ("core", "1.1", ()), ("core", "2.0", ()), ("new", "1.0", ()),
    ("tool", "1.0", ()), ("tool", "1.1", ()),
)  # fmt: skip
#: What is vulnerable: lib until 2.1, core until 2.0, and the new release of tool.
ADVISORIES = (
    osv("GHSA-lib", vector=HIGH, aliases=["CVE-2026-1"],
        affected=[affected("lib", ("introduced", "0"), ("fixed", "2.1"))]),
    osv("PYSEC-lib", aliases=["CVE-2026-1"],
        affected=[affected("lib", ("introduced", "0"), ("fixed", "2.1"))]),
    osv("GHSA-core", affected("core", ("introduced", "0"), ("fixed", "2.0")), vector=HIGH),
    osv("GHSA-tool", vector=HIGH, affected=[affected("tool", ("introduced", "1.1"))]),
)  # fmt: skip


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index(protected=False, json=True, ranges=True, validators=True) as made:
        for name, version, requires in RELEASES:
            lines = "License-Expression: MIT\n"
            lines += "".join(f"Requires-Dist: {it}\n" for it in requires)
            made.add_wheel(name, version, metadata=lines, beside=True)
        yield made


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.txt"
    path.write_text("app==1.0\ncore==1.0\nlib==1.0\ntool==1.0\n", encoding="utf-8")
    return path


def fix(
    stores: Stores, index: Index, path: Path, *options: str, **more: str
) -> CompletedProcess[str]:
    where = {
        "PACKAGE_INDEXES": f"pypi={index.url}", "PATH": TOOLS, "UV_PYTHON": sys.executable,
        "UV_NO_CACHE": "1",
    }  # fmt: skip
    python = f"3.{sys.version_info[1]}"
    return thoth(stores.settings, "fix", str(path), "--python", python, *options, **where, **more)


def with_advisories(stores: Stores, folder: Path) -> None:
    archive = write_archive(folder / "all.zip", list(ADVISORIES))
    sync_source(stores.settings, stores.engine, str(archive))


def test_fix_changes_a_lock_as_far_as_requirements_permit(
    stores: Stores, index: Index, lock: Path, tmp_path: Path
) -> None:
    with_advisories(stores, tmp_path)
    sarif_file, proof = tmp_path / "fix.sarif", tmp_path / "proof.json"
    files = "--sarif", str(sarif_file), "--proof", str(proof)
    done = fix(stores, index, lock, "--json", *files)
    assert done.returncode == 4, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert [(it["package"], it["id"]) for it in document["open"]] == [
        ("core", "GHSA-core"), ("lib", "CVE-2026-1"),
    ]  # fmt: skip
    smallest = document["fixes"][0]
    assert smallest["kind"] == "smallest"
    assert smallest["changed"] == [
        {"name": "lib", "old": "1.0", "new": "2.1", "verdict": "not measured", "settled_by": None}
    ]
    assert [it["id"] for it in smallest["fixed"]] == ["CVE-2026-1"]
    (remaining,) = smallest["remaining"]
    assert remaining["id"] == "GHSA-core"
    assert remaining["blocked_by"]["requirers"] == ["app 2.0 and 1.0 requires core<2"]
    assert remaining["blocked_by"]["proven"]
    assert smallest["proof"]["numbers"] == smallest["proof"]["at_least"]
    assert smallest["proof"]["numbers"]["changed packages"] == 1
    assert smallest["proof"]["assumption"] in {None, UNINVITED}
    sarif = json.loads(sarif_file.read_text("utf-8"))
    assert len(sarif["runs"][0]["results"]) == 2
    checked = thoth(stores.settings, "check", str(proof))
    assert "verified: no other answer has smaller numbers" in checked.stdout
    assert checked.returncode == 2, checked.stderr  # what indexes list was not verified


def test_fix_explains_why_a_vulnerability_remains(
    stores: Stores, index: Index, lock: Path, tmp_path: Path
) -> None:
    with_advisories(stores, tmp_path)
    only = fix(stores, index, lock, "--only", "PYSEC-lib")
    assert only.returncode == 1, only.stdout + only.stderr
    everything = fix(stores, index, lock)
    lines = everything.stdout.splitlines()
    assert "smallest fix: 1 package changes, 1 of 2 fixed, proven" in lines
    assert "  lib: 1.0 → 2.1; removes CVE-2026-1; not measured" in lines
    assert "    app 2.0 and 1.0 require core<2" in lines
    assert "    would help: a release of app that admits core 2.0" in lines
    accepted = fix(stores, index, lock, "--allow-vulnerability", "GHSA-core", "--only", "GHSA-core")
    assert accepted.returncode == 0, accepted.stdout
    # The locked version of tool does not have it.
    assert fix(stores, index, lock, "--only", "ghsa-tool").returncode == 0
    wrong = fix(stores, index, lock, "--only", "GHSA-tol")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no advisory about a package of the lock is called GHSA-TOL" in wrong.stderr


def test_fix_names_the_group_that_blocks_it(
    stores: Stores, index: Index, lock: Path, tmp_path: Path
) -> None:
    with_advisories(stores, tmp_path)
    lock.with_name("pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\ndependencies = ["lib", "tool"]\n'
        '[dependency-groups]\ndev = ["core<1.1"]\n',
        encoding="utf-8",
    )
    lines = fix(stores, index, tmp_path, "--only", "GHSA-core").stdout.splitlines()
    assert "    the group dev requires core<1.1" in lines
    assert "    would help: a wider requirement of the group dev than core<1.1" in lines


def test_fix_works_without_any_store(
    stores: Stores, index: Index, lock: Path, tmp_path: Path
) -> None:
    archive = write_archive(tmp_path / "all.zip", list(ADVISORIES))
    nowhere = {"DATABASE_URL": "postgresql://127.0.0.1:1/none", "GRAPH_URL": "bolt://127.0.0.1:1"}
    done = fix(stores, index, lock, "--json", "--advisories", str(archive), **nowhere)
    assert done.returncode == 4, done.stderr
    document = json.loads(done.stdout)
    with_advisories(stores, tmp_path)
    stored = json.loads(fix(stores, index, lock, "--json").stdout)
    for it in (document, stored):
        del it["advisories_as_of"], it["snapshot"], it["evidence"]
    assert document == stored
    unnamed = fix(stores, index, lock, "--pack", **nowhere)
    assert unnamed.returncode == 2
    assert "--advisories" in unnamed.stderr


@needs("uv")
def test_fix_changes_a_uv_lock_as_little_as_possible(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    with_advisories(stores, tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\n'
        'dependencies = ["app<2", "tool"]\n\n[[tool.uv.index]]\nname = "own"\n'
        f'url = "{index.url}"\ndefault = true\n',
        encoding="utf-8",
    )
    source = f'source = {{ registry = "{index.url}" }}'
    parts = ['version = 1\nrevision = 3\nrequires-python = ">=3.11"\n']
    requires = {"app": ("lib", "core")}
    for name in ("app", "core", "lib", "tool"):
        needed = "".join(f'{{ name = "{it}" }}, ' for it in requires.get(name, ()))
        parts.append(
            f'[[package]]\nname = "{name}"\nversion = "1.0"\n{source}\ndependencies = [{needed}]\n'
        )
    parts.append(
        '[[package]]\nname = "demo"\nversion = "1"\nsource = { virtual = "." }\n'
        'dependencies = [{ name = "app" }, { name = "tool" }]\n\n[package.metadata]\n'
        'requires-dist = [{ name = "app", specifier = "<2" }, { name = "tool" }]\n'
    )
    (tmp_path / "uv.lock").write_text("\n".join(parts), encoding="utf-8")
    done = fix(stores, index, tmp_path, "--apply")
    assert done.returncode == 4, done.stderr
    assert "is what was advised: it has all 4 versions" in done.stderr
    text = (tmp_path / "uv.lock").read_text("utf-8")
    assert 'name = "lib"\nversion = "2.1"' in text
    assert 'name = "tool"\nversion = "1.0"' in text
    again = fix(stores, index, tmp_path, "--allow-vulnerability", "GHSA-core")
    assert again.returncode == 0, again.stdout + again.stderr


def test_accepted_vulnerability_is_reported_again_after_its_last_day(
    stores: Stores, index: Index, lock: Path, tmp_path: Path
) -> None:
    with_advisories(stores, tmp_path)
    record = tmp_path / "thoth.vex.json"
    why = "--reason", "core reads only\nour files", "--until", "2999-01-31"
    refused = fix(stores, index, lock, "--accept", "CVE-1999-1", *why)
    assert refused.returncode == 2
    assert not record.exists()
    accepted = fix(stores, index, lock, "--accept", "ghsa-core", *why)
    assert accepted.returncode == 1, accepted.stderr
    line = "accepted until 2999-01-31: core reads only our files (thoth.vex.json)"
    assert f"not open: GHSA-core (high) of core 1.0: {line}" in accepted.stdout.splitlines()
    assert fix(stores, index, lock, "--accept", "PYSEC-lib", *why).returncode == 0
    files = tmp_path / "a.sarif", tmp_path / "a.md"
    options = "--json", "--sarif", str(files[0]), "--comment", str(files[1])
    document = json.loads(fix(stores, index, lock, *options).stdout)
    assert document["open"] == []
    assert [it["vex"]["until"] for it in document["closed"]] == ["2999-01-31"] * 2
    results = json.loads(files[0].read_text("utf-8"))["runs"][0]["results"]
    assert [it["suppressions"][0]["justification"] for it in results] == [line, line]
    assert line in files[1].read_text("utf-8")
    harm = tmp_path / "new.txt"
    harm.write_text("app==1.0\ncore==1.0\nlib==2.1\ntool==1.0\n", encoding="utf-8")
    lock.write_text("app==1.0\nlib==2.1\ntool==1.0\n", encoding="utf-8")
    python = "--python", f"3.{sys.version_info[1]}"
    guarded = thoth(stores.settings, "guard", str(lock), str(harm), *python, "--json")
    guard_document = json.loads(guarded.stdout)
    assert (guard_document["introduced"], guard_document["outcome"]) == ([], "no_harm")
    assert [it["id"] for it in guard_document["closed"]] == ["GHSA-core"]
    record.write_text(record.read_text("utf-8").replace("2999", "1999"), encoding="utf-8")
    expired = fix(stores, index, harm)
    assert expired.returncode == 4, expired.stdout
    again = "was accepted until 1999-01-31: core reads only our files (thoth.vex.json)"
    assert f"open: GHSA-core (high) of core 1.0: {again}" in expired.stdout.splitlines()
    exported = thoth(stores.settings, "export", "sbom", str(harm), "--record", *python)
    bill = json.loads(exported.stdout)
    assert {it["licenses"][0]["license"]["id"] for it in bill["components"]} == {"MIT"}
    needs = {it["ref"]: it.get("dependsOn") for it in bill["dependencies"]}
    assert needs["pkg:pypi/app@1.0"] == ["pkg:pypi/core@1.0", "pkg:pypi/lib@2.1"]
    record.write_text('{"bomFormat": "CycloneDX", "vulnerabilities": 1}', encoding="utf-8")
    broken = fix(stores, index, harm)
    assert (broken.returncode, "thoth.vex.json: vulnerabilities" in broken.stderr) == (2, True)


def test_concurrent_acceptances_of_vulnerabilities_are_both_recorded(
    stores: Stores, index: Index, lock: Path, tmp_path: Path
) -> None:
    with_advisories(stores, tmp_path)
    why = "--reason", "reads only our files", "--until", "2999-01-31"
    with ThreadPoolExecutor() as pool:
        accept = partial(fix, stores, index, lock, "--accept")
        done = [pool.submit(accept, it, *why) for it in ("GHSA-core", "PYSEC-lib")]
    assert [it.result().stderr for it in done if "recorded in" not in it.result().stderr] == []
    record = json.loads((tmp_path / "thoth.vex.json").read_text("utf-8"))
    assert {it["affects"][0]["ref"] for it in record["vulnerabilities"]} == {
        "pkg:pypi/core", "pkg:pypi/lib",
    }  # fmt: skip


@pytest.mark.parametrize("option", ["--dry-run", "--json"])
def test_fix_names_the_versions_for_a_lock_that_it_cannot_write(
    stores: Stores, index: Index, tmp_path: Path, option: str
) -> None:
    with_advisories(stores, tmp_path)
    lock = tmp_path / "pdm.lock"
    text = "".join(f'[[package]]\nname = "{it}"\nversion = "1.0"\ngroups = ["default"]\n'
                   for it in ("app", "core", "lib"))  # fmt: skip
    text += '[metadata]\nlock_version = "4.5.0"\nstrategy = ["inherit_metadata"]\n'
    lock.write_text(text, encoding="utf-8")
    done = fix(stores, index, lock, "--apply", option)
    assert "lock lib==2.1 with the project's own tool" in done.stderr
    assert (done.returncode, lock.read_text("utf-8")) == (1, text)


def test_fixed_pipfile_lock_keeps_the_hash_of_its_pipfile(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    with_advisories(stores, tmp_path)
    (tmp_path / "Pipfile").write_text(
        f'[[source]]\nurl = "{index.url}"\nverify_ssl = false\nname = "own"\n'
        '[packages]\napp = "<2"\ntool = "*"\n',
        encoding="utf-8",
    )
    (manifest_hash, *_) = read_project(tmp_path).manifest_hashes
    versions = {it: {"version": "==1.0"} for it in ("app", "core", "lib", "tool")}
    versions["lib"]["markers"] = "python_version >= '3.8'"
    other = {"markers": "sys_platform == 'win32'", "version": "==1.0"}
    versions["other"] = other
    meta = {"hash": {"sha256": manifest_hash}, "pipfile-spec": 6, "requires": {}, "sources": []}
    lock = tmp_path / "Pipfile.lock"
    lock.write_text(json.dumps({"_meta": meta, "default": versions, "develop": {}}))
    done = fix(stores, index, tmp_path, "--apply")
    assert done.returncode == 4, done.stderr
    written = json.loads(lock.read_text("utf-8"))
    assert written["_meta"]["hash"]["sha256"] == manifest_hash
    assert written["default"]["lib"]["version"] == "==2.1"
    assert written["default"]["lib"]["markers"] == "python_version >= '3.8'"
    assert written["default"]["other"] == other
    assert "note: kept: 1 package, of groups and extras that were not selected" in done.stderr
    assert "(--python, --platform): other\n" in done.stderr


def test_fix_names_packages_that_a_written_lock_loses(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    with_advisories(stores, tmp_path)
    lock, hashed = tmp_path / "requirements.txt", f"--hash=sha256:{'0' * 64}"
    lines = [*(f"{it}==1.0" for it in ("app", "core", "lib")),
             "other==1.0 ; sys_platform == 'win32'"]  # fmt: skip
    lock.write_text("".join(f"{it} {hashed}\n" for it in lines), encoding="utf-8")
    done = fix(stores, index, lock, "--apply")
    assert "wrote" in done.stderr, done.stderr
    assert "note: left out: 1 package, of groups and extras that were not" in done.stderr
    assert "other" not in lock.read_text("utf-8")
