"""``thoth advise --apply``: the project's own tool writes what was advised, or nothing changes."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from graph.engine import Stores
from tests.requirements import needs
from tests.services.commands import thoth
from tests.services.index import Index, package_index

SECRET = "hunter2"
TOOLS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def index() -> Iterator[Index]:
    """``app`` 1.1 needs ``lib`` 2; only a user with a password may read it."""
    with package_index(protected=False, json=True, ranges=True, validators=True) as made:
        for name, version, needs in (
            ("app", "1.0", "lib>=1"), ("app", "1.1", "lib>=2"),
            ("lib", "1.0", ""), ("lib", "2.0", ""), ("lib", "2.1", ""),
        ):  # fmt: skip
            requires = f"Requires-Dist: {needs}\n" if needs else ""
            made.add_wheel(name, version, metadata=requires, beside=True)
        yield made


@pytest.fixture
def project(tmp_path: Path, index: Index) -> Path:
    """A uv project whose lock has the older versions."""
    url = index.url.replace("://", f"://me:{SECRET}@")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["app"]\n\n[[tool.uv.index]]\nname = "own"\nurl = "{url}"\n'
        "default = true\n",
        encoding="utf-8",
    )
    (tmp_path / "uv.lock").write_text(uv_lock(index.url), encoding="utf-8")
    return tmp_path


def uv_lock(url: str) -> str:
    source = f'source = {{ registry = "{url}" }}'
    return (
        'version = 1\nrevision = 3\nrequires-python = ">=3.11"\n\n'
        f'[[package]]\nname = "app"\nversion = "1.0"\n{source}\n'
        'dependencies = [{ name = "lib" }]\n\n'
        '[[package]]\nname = "demo"\nversion = "1"\nsource = { virtual = "." }\n'
        'dependencies = [{ name = "app" }]\n\n[package.metadata]\n'
        'requires-dist = [{ name = "app" }]\n\n'
        f'[[package]]\nname = "lib"\nversion = "1.0"\n{source}\n'
    )


def apply(
    stores: Stores, index: Index, folder: Path, *options: str, **variables: str
) -> CompletedProcess[str]:
    where = {
        "PACKAGE_INDEXES": f"pypi={index.url}", "PATH": TOOLS, "UV_PYTHON": sys.executable,
        "UV_NO_CACHE": "1", "UV_INDEX_URL": "", "UV_DEFAULT_INDEX": "", "PIP_FIND_LINKS": "",
    }  # fmt: skip
    return thoth(
        stores.settings, "advise", str(folder), "--apply", "--python", f"3.{sys.version_info[1]}",
        "--type", "latest", *options, **{**where, **variables},
    )  # fmt: skip


@needs("uv")
def test_advise_apply_writes_a_uv_lock_with_the_advised_versions(
    stores: Stores, index: Index, project: Path
) -> None:
    lock = project / "uv.lock"
    before = lock.read_bytes()
    dry = apply(stores, index, project, "--exclude", "lib==2.1", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "app: 1.0 → 1.1\nlib: 1.0 → 2.0\n" in dry.stderr
    asked = "runs: uv lock --upgrade-package app==1.1 --upgrade-package lib==2.0\n"
    assert asked in dry.stderr
    assert lock.read_bytes() == before
    done = apply(stores, index, project, "--exclude", "lib==2.1")
    assert done.returncode == 0, done.stderr
    assert "is what was advised: it has all 2 versions" in done.stderr
    assert '"lib"\nversion = "2.0"' in lock.read_text("utf-8")
    again = apply(stores, index, project, "--exclude", "lib==2.1")
    assert "has the advised versions already" in again.stderr
    assert SECRET not in "".join((dry.stderr, done.stdout, done.stderr, lock.read_text("utf-8")))


@needs("uv")
def test_failing_lock_tool_leaves_the_lock_unchanged_and_shows_no_secret(
    stores: Stores, index: Index, project: Path
) -> None:
    lock, manifest = project / "uv.lock", project / "pyproject.toml"
    before = lock.read_bytes()
    text = manifest.read_text("utf-8")
    manifest.write_text(f'{text}\n[tool.uv]\nrequired-version = ">=999"\n', encoding="utf-8")
    failed = apply(stores, index, project)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "`uv` failed with exit code" in failed.stderr
    assert (lock.read_bytes(), SECRET in failed.stderr) == (before, False)
    missing = apply(stores, index, project, PATH="/none")
    assert "uv is not installed, or not in PATH" in missing.stderr
    assert lock.read_bytes() == before


def guarded(stores: Stores, index: Index, folder: Path, *arguments: str) -> CompletedProcess[str]:
    where = {
        "PACKAGE_INDEXES": f"pypi={index.url}", "PATH": TOOLS, "UV_PYTHON": sys.executable,
        "UV_NO_CACHE": "1",
    }  # fmt: skip
    paths = [str(folder / it) for it in ("old.txt", "new.txt")]
    python = ("--python", f"3.{sys.version_info[1]}")
    return thoth(stores.settings, "guard", *(arguments or paths), *python, **where)


def test_guard_proposes_and_writes_the_nearest_version_that_is_not_yanked(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    index.facts["app-1.1-py3-none-any.whl"]["yanked"] = "broken"
    index.add_wheel("app", "1.2", metadata="Requires-Dist: lib>=9\n")
    (tmp_path / "old.txt").write_text("app==1.0\nlib==1.0\n", encoding="utf-8")
    (tmp_path / "new.txt").write_text("app==1.1\nlib==2.0\n", encoding="utf-8")
    locks = (str(tmp_path / "old.txt"), str(tmp_path / "new.txt"))
    out = tmp_path / "proposed.txt"
    done = guarded(stores, index, tmp_path, *locks, "--propose", "-o", str(out))
    assert done.returncode == 1, done.stderr
    harm = "vulnerable or yanked:\n  app 1.1 is yanked: broken [its index says so]\n"
    proposal = (
        "    instead: app 1.0 (the nearest known without it; the whole lock with it is valid)"
    )
    assert f"{harm}{proposal}" in done.stdout
    assert out.exists(), done.stderr + done.stdout
    written = out.read_text("utf-8")
    assert "\napp==1.0 " in written
    assert "\nlib==2.0 " in written
    assert "--hash=sha256:" in written
    pylock = tmp_path / "pylock.toml"
    other = guarded(stores, index, tmp_path, *locks, "--propose", "-o", str(pylock))
    assert f"wrote {pylock} (pylock)" in other.stderr, other.stderr
    assert 'name = "app"\nversion = "1.0"' in pylock.read_text("utf-8")
    again = guarded(stores, index, tmp_path, locks[0], str(out), "--allow-unknown")
    assert again.returncode == 0, again.stdout
    nothing = guarded(stores, index, tmp_path, locks[0], str(out), "--propose", "-o", str(out))
    assert "no harm is known, so nothing is proposed" in nothing.stderr


def test_guard_proposes_no_version_that_the_project_excludes(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    index.facts["app-1.1-py3-none-any.whl"]["yanked"] = "broken"
    (tmp_path / "requirements.in").write_text("app>=1.1\n", encoding="utf-8")
    (tmp_path / "old.txt").write_text("app==1.0\nlib==1.0\n", encoding="utf-8")
    new = tmp_path / "requirements.txt"
    new.write_text("app==1.1\nlib==1.0\n", encoding="utf-8")
    done = guarded(stores, index, tmp_path, str(tmp_path / "old.txt"), str(new))
    assert "    no version of app without it is known: " in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["pdm.lock", "pixi.lock", "old.uv.lock", "environment.yml"])
def test_guard_proposal_keeps_a_lock_whose_format_it_cannot_write(
    stores: Stores, index: Index, tmp_path: Path, name: str
) -> None:
    index.facts["app-1.1-py3-none-any.whl"]["yanked"] = "broken"
    versions = {"app": "1.1", "lib": "2.0"}
    source = f'source = {{ registry = "{index.url}" }}\n'
    tables = [f'[[package]]\nname = "{it}"\nversion = "{at}"\n' for it, at in versions.items()]
    wheels = [f"- pypi: https://index.example/{it}.whl\n" for it in versions]
    named = [f"  name: {it}\n  version: '{at}'\n" for it, at in versions.items()]
    texts = {
        "pdm.lock": "".join(f'{it}groups = ["default"]\n' for it in tables)
        + '[metadata]\nlock_version = "4.5.0"\n',
        "pixi.lock": "version: 6\nenvironments:\n  default:\n    packages:\n      linux-64:\n"
        + "".join(f"      {it}" for it in wheels)
        + "packages:\n"
        + "".join(f"{one}{two}" for one, two in zip(wheels, named, strict=True)),
        "old.uv.lock": "version = 1\n"
        + "".join(f"{it}{source}" for it in tables)
        + '[[package]]\nname = "demo"\nversion = "1"\nsource = { virtual = "." }\n'
        'dependencies = [{ name = "app" }, { name = "lib" }]\n',
        "environment.yml": "dependencies:\n- pip:\n  - app==1.1\n  - lib==2.0\n",
    }
    old, new, out = (tmp_path / it for it in ("old.txt", name, "requirements.txt"))
    old.write_text("app==1.0\nlib==1.0\n", encoding="utf-8")
    new.write_text(texts[name], encoding="utf-8")
    done = guarded(stores, index, tmp_path, str(old), str(new), "--propose")
    assert (done.returncode, "give -o requirements.txt" in done.stderr) == (1, True), done.stderr
    assert new.read_text("utf-8") == texts[name]
    other = guarded(stores, index, tmp_path, str(old), str(new), "--propose", "-o", str(out))
    assert f"wrote {out} (requirements)" in other.stderr
    assert new.read_text("utf-8") == texts[name]


@needs("uv")
def test_guard_proposal_is_written_into_a_uv_lock(
    stores: Stores, index: Index, project: Path, tmp_path: Path
) -> None:
    index.facts["app-1.1-py3-none-any.whl"]["yanked"] = "broken"
    lock, old = project / "uv.lock", project / "before" / "uv.lock"
    old.parent.mkdir()
    old.write_bytes(lock.read_bytes())
    manifest = project / "pyproject.toml"
    (old.parent / manifest.name).write_bytes(manifest.read_bytes())
    for name, version in (("app", "1.1"), ("lib", "2.0")):
        text = lock.read_text("utf-8").replace(
            f'"{name}"\nversion = "1.0"', f'"{name}"\nversion = "{version}"'
        )
        lock.write_text(text, encoding="utf-8")
    harmful = lock.read_bytes()
    out = project / "proposed.txt"
    other = guarded(stores, index, project, str(old), str(lock), "--propose", "-o", str(out))
    assert f"wrote {out} (requirements)" in other.stderr
    assert {"app==1.0", "lib==2.0"} <= set(out.read_text("utf-8").split())
    done = guarded(stores, index, project, str(old), str(lock), "--propose")
    assert done.returncode == 1, done.stdout + done.stderr
    command = "runs: uv lock --upgrade-package app==1.0\n"
    assert f"app: 1.1 → 1.0\n{command}wrote {lock} (uv)" in done.stderr
    text = lock.read_text("utf-8")
    assert '"app"\nversion = "1.0"' in text
    assert '"lib"\nversion = "2.0"' in text
    copy = project / "next.uv.lock"
    copy.write_bytes(harmful)
    done = guarded(stores, index, project, str(old), str(copy), "--propose")
    assert f"{command}wrote {copy} (uv)" in done.stderr, done.stderr
    assert (copy.read_text("utf-8"), lock.read_text("utf-8")) == (text, text)


def test_advise_apply_requires_a_lock_of_a_known_tool(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    (tmp_path / "requirements.in").write_text("app\n", encoding="utf-8")
    done = apply(stores, index, tmp_path)
    assert done.returncode == 2, done.stderr
    assert "no tool can write the lock" in done.stderr
    both = apply(stores, index, tmp_path, "-o", str(tmp_path / "out.txt"))
    assert "--apply writes the project's own lock" in both.stderr
