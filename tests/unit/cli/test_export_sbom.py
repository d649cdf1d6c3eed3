"""``thoth export sbom``: valid by the schema, the same stack when read back, and no secret."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from adviser.answering.target_hardware import own_hardware
from cli.export import sbom
from cli.project_files import read_lock_file
from common.settings import Settings
from model.packages.environments import environment
from tests.factories.evidence import GAIN, Bench, jobs, series
from tests.factories.packs import pack_of
from tests.services.commands import WHERE

_DATA = os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[3].parent / "shared" / "data"
REAL = Path(_DATA, "locks")
DIGESTS = ["a" * 64, "b" * 64]
PIPFILE_LOCK = {
    "_meta": {
        "hash": {"sha256": "c" * 64},
        "requires": {},
        "sources": [
            {"name": "own", "url": "https://me:secret@index.example/simple?token=secret",
             "verify_ssl": True},
            {"name": "other", "url": "https://${USER}:${PASSWORD}@other.example/simple",
             "verify_ssl": True},
        ],
    },
    "default": {
        "flask": {"hashes": [f"sha256:{it}" for it in DIGESTS], "version": "==3.0.0"},
        "torch": {"hashes": [], "version": "==2.9.0+cpu", "index": "other"},
        "ours": {"git": "https://me:secret@git.example/ours.git", "ref": "1f2e"},
    },
    "develop": {"pytest": {"hashes": [], "version": "==9.0.0"}},
}  # fmt: skip


def run(*arguments: str, **variables: str) -> Result:
    nowhere = {"DATABASE_URL": "postgresql://127.0.0.1:1/none", "GRAPH_URL": "bolt://127.0.0.1:1"}
    settings = Settings.from_env({**nowhere, "THOTH_HOME": str(Path.cwd() / "home")})
    return CliRunner().invoke(sbom, [*WHERE, *arguments], obj=settings, env=variables)


def bill(*arguments: str) -> Bom:
    done = run(*arguments, "--as-of", "2026-01-02")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    # The validator takes 0.05 s for each address.
    small = [it for it in document["components"] if len(it.get("externalReferences", ())) < 4]
    few = json.dumps({**document, "components": small[:4]})
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(few) is None
    read: Bom = Bom.from_json(document)  # type: ignore[attr-defined]
    return read


def hashes(component: Component) -> list[str]:
    return sorted(it.content for ref in component.external_references for it in ref.hashes)


def properties(owner: Any, name: str) -> list[str]:
    return [it.value for it in owner.properties if it.name == f"thoth:{name}"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_sbom_has_the_content_of_the_lock_without_secrets() -> None:
    lock = Path("Pipfile.lock")
    lock.write_text(json.dumps(PIPFILE_LOCK), encoding="utf-8")
    bom = bill(str(lock))
    flask, ours, pytest_itself, torch = sorted(bom.components, key=lambda it: it.name)
    assert (flask.scope, pytest_itself.scope) == (None, ComponentScope.EXCLUDED)
    assert (flask.name, flask.version, hashes(flask)) == ("flask", "3.0.0", DIGESTS)
    purl = "pkg:pypi/torch@2.9.0%2Bcpu?repository_url=https://other.example/simple"
    assert (torch.purl and torch.purl.to_string()) == purl
    assert ours.purl is not None
    assert ours.purl.qualifiers == {"vcs_url": "https://git.example/ours.git"}
    assert properties(bom.metadata, "dependencies") == ["partly unknown"]
    text = run(str(lock)).stdout
    assert not [it for it in ("secret", "token", "USER", "PASSWORD") if it in text]


def test_sboms_of_equal_locks_differ_only_in_the_creation_time() -> None:
    lock = Path("requirements.txt")
    lock.write_text("a==1.0 --hash=sha256:" + DIGESTS[0] + "\nb==2\n", encoding="utf-8")
    epoch = run("requirements.txt", SOURCE_DATE_EPOCH="1767312000").stdout
    assert epoch == run("requirements.txt", "--as-of", "2026-01-02").stdout
    now = json.loads(run("requirements.txt").stdout)
    then = json.loads(epoch)
    assert now["metadata"].pop("timestamp") > then["metadata"].pop("timestamp")
    assert now == then
    Path("other.txt").write_text(lock.read_text("utf-8") + "c==1\n", encoding="utf-8")
    assert json.loads(run("other.txt").stdout)["serialNumber"] != then["serialNumber"]
    for wrong in ("soon", "1e9", "99999999999999"):
        refused = run("requirements.txt", "--as-of", wrong)
        assert "--as-of: " in str(refused.exception)
        refused = run("requirements.txt", SOURCE_DATE_EPOCH=wrong)
        assert "SOURCE_DATE_EPOCH: " in str(refused.exception)
        assert "seconds since 1970" in str(refused.exception)


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the real locks")
@pytest.mark.parametrize(
    "project", ["uv-flask", "poetry-poetry-21", "pdm-unearth-45", "pylock-h11"]
)
def test_sbom_of_a_real_lock_lists_exactly_the_locked_packages(project: str) -> None:
    (lock,) = (it for it in (REAL / project).iterdir() if "lock" in it.name)
    markers = environment(WHERE[1], WHERE[3]).markers
    content = read_lock_file(lock, markers=markers)
    locked = content.packages(markers)
    bom = bill(os.fspath(lock))
    listed = {it.name: it for it in bom.components if "vcs_url" not in str(it.purl)}
    assert {it: listed[it].version for it in listed} == {it: locked[it].version for it in locked}
    for name, entry in locked.items():
        assert hashes(listed[name]) == sorted(it.partition(":")[2] for it in entry.hashes), name
    needs = {str(it.ref): {str(one.ref) for one in it.dependencies} for it in bom.dependencies}
    for name, entry in locked.items():
        wanted = {str(listed[it].bom_ref) for it in entry.dependencies if it in listed}
        assert needs[str(listed[name].bom_ref)] == wanted - {str(listed[name].bom_ref)}


_UV, _PDM = 'source = { registry = "https://index.example/simple" }\n', 'groups = ["default"]\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.lock", 'version = 1\n[[package]]\nname = "app"\nversion = "1"\n'
         'source = { virtual = "." }\ndependencies = [{ name = "web" }, { name = "base" }]\n'
         f'[[package]]\nname = "web"\nversion = "1"\n{_UV}dependencies = [{{ name = "base" }},'
         f' {{ name = "rest" }}]\n[[package]]\nname = "base"\nversion = "1"\n{_UV}'
         f'[[package]]\nname = "rest"\nversion = "1"\n{_UV}'),
        ("pdm.lock", '[metadata]\nlock_version = "4.5.0"\nstrategy = ["inherit_metadata"]\n'
         f'[[package]]\nname = "web"\nversion = "1"\n{_PDM}dependencies = ["base", "rest"]\n'
         f'[[package]]\nname = "base"\nversion = "1"\n{_PDM}'
         f'[[package]]\nname = "rest"\nversion = "1"\n{_PDM}'),
    ],
)  # fmt: skip
def test_sbom_lists_every_package_that_the_project_itself_requires(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")
    Path("pyproject.toml").write_text(
        '[project]\nname = "app"\nversion = "1"\ndependencies = ["web", "base"]\n', encoding="utf-8"
    )
    (needs,) = (it for it in bill(name).dependencies if str(it.ref) == "lock")
    assert {str(it.ref).split("/")[1].split("@")[0] for it in needs.dependencies} == {"web", "base"}


_GROUPS = 'groups = ["{}"]\nfiles = []\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.lock", 'version = 1\n[[package]]\nname = "app"\nversion = "1"\n'
         'source = { virtual = "." }\ndependencies = [{ name = "web" }]\n'
         '[package.dev-dependencies]\ntest = [{ name = "check" }, { name = "web" }]\n'
         f'[[package]]\nname = "web"\nversion = "1"\n{_UV}'
         f'[[package]]\nname = "check"\nversion = "1"\n{_UV}'),
        ("poetry.lock", '[metadata]\nlock-version = "2.1"\npython-versions = "*"\n'
         '[[package]]\nname = "web"\nversion = "1"\ngroups = ["main", "test"]\nfiles = []\n'
         f'[[package]]\nname = "check"\nversion = "1"\n{_GROUPS.format("test")}'),
        ("pdm.lock", '[metadata]\nlock_version = "4.5.0"\ngroups = ["default", "test"]\n'
         'strategy = ["inherit_metadata"]\n'
         '[[package]]\nname = "web"\nversion = "1"\ngroups = ["default", "test"]\n'
         f'[[package]]\nname = "check"\nversion = "1"\n{_GROUPS.format("test")}'),
    ],
)  # fmt: skip
def test_packages_of_selected_groups_are_excluded_from_the_scope(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")
    assert {it.name: it.scope for it in bill(name).components} == {"web": None}
    assert {it.name: it.scope for it in bill(name, "--group", "test").components} == {
        "web": None, "check": ComponentScope.EXCLUDED,
    }  # fmt: skip
    if name == "pdm.lock":  # for which an extra is a group, too
        Path("pyproject.toml").write_text(
            '[project]\nname = "app"\nversion = "1"\ndependencies = ["web"]\n'
            '[project.optional-dependencies]\ntest = ["check"]\n', encoding="utf-8"
        )  # fmt: skip
        assert {it.scope for it in bill(name, "--group", "test").components} == {None}


def test_sbom_names_the_pack_with_its_measurements(tmp_path: Path) -> None:
    hardware = own_hardware().digest
    bench = Bench()
    for version, gain in (("1", 0.0), ("2", GAIN), ("3", 0.0)):
        rates, turns = jobs(gain, seed=int(version)), [f"run:{turn}" for turn in range(8)]
        stack = bench.stack(f"numpy=={version}", "rest==1")
        bench.measure(stack, rates, series(hardware=hardware), blocks=turns)
    evidence = bench.evidence(hardware={hardware: "a class"})
    pack = pack_of(evidence, tmp_path / "pack", key=tmp_path / "key")
    Path("lock.txt").write_text("numpy==2\nrest==1\n", encoding="utf-8")
    bom = bill("lock.txt", f"--pack={pack}")
    numpy, rest = sorted(bom.components, key=lambda it: it.name)
    (measured,) = properties(numpy, "measured")
    assert measured.startswith("numpy 2 is 30 % faster than 1 in PiMatmul")
    assert "measured by others: pack" in measured
    (reference,) = (it for it in numpy.external_references if it.type.value == "evidence")
    assert str(reference.url).startswith("sha256:")
    assert not properties(rest, "measured")
    assert run("lock.txt", "--record", f"--pack={pack}").exit_code == 2
