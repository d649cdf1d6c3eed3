"""Jobs in real containers, from a base image that is made of this machine's own Python.

The recipe itself is tested without an engine.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from common.settings import Settings
from pis.amun.launchers import BuildFailed, Inspection, Job, JobResult, PreparedInspection, Script
from pis.amun.launchers.container import ContainerLauncher
from pis.amun.launchers.images import Engine, find_engine, isolation_options
from pis.amun.specification import load_specification
from tests.requirements import needs

pytestmark = needs("container engine")

_PROGRAMS = ("env", "sh", "xargs")


@pytest.fixture(scope="module")
def engine() -> Engine:
    return find_engine()


@pytest.fixture(scope="module")
def base(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with a Python of the system, its libraries and a shell: some 70 MB."""
    python = Path("/usr/bin/python3")
    if not python.exists() or not Path("/usr/share/python-wheels").is_dir():
        pytest.skip("no Python of the system that could be put into an image")
    rootfs = tmp_path_factory.mktemp("base") / "rootfs.tar"
    with tarfile.open(rootfs, "w") as archive:
        for path in sorted(closure(needed_by(python.resolve()))):
            archive.add(path, recursive=False)
    name = f"localhost/thoth-test-{uuid.uuid4()}:1"
    before = images(engine)
    imported = engine.call("import", str(rootfs), name)
    if imported.returncode:
        pytest.skip(f"no image can be imported: {imported.stderr}")
    runs = engine.call("run", "--rm", *isolation_options(), name, "/usr/bin/python3", "-c", "")
    if runs.returncode:
        engine.call("rmi", "--force", name)
        pytest.skip(f"no container can be run: {runs.stderr}")
    yield name
    for image in images(engine) - before:
        engine.call("rmi", "--force", image)


def images(engine: Engine) -> set[str]:
    return set(engine.call("images", "--all", "--quiet", "--no-trunc").stdout.split())


def needed_by(python: Path) -> Iterator[Path]:
    programs = [python, *(Path(which(name) or name) for name in _PROGRAMS)]
    library = Path("/usr/lib", python.name)
    yield from programs
    for binary in [*programs, *library.glob("lib-dynload/*.so")]:
        listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False)  # noqa: S607
        yield from map(Path, re.findall(r"(/\S+)", listed.stdout))
    yield from library.rglob("*")
    yield from Path("/usr/share/python-wheels").rglob("*")
    yield from (Path("/usr/bin/python3"), Path("/etc/os-release"))


def closure(paths: Iterable[Path]) -> set[Path]:
    """``paths``, the links on the way to them, and what those lead to."""
    found: set[Path] = set()
    pending = list(paths)
    while pending:
        path = pending.pop()
        if path in found or path == Path("/"):
            continue
        above = path.parent.resolve()
        if above != path.parent:
            pending += [path.parent, above / path.name]
            continue
        found.add(path)
        pending.append(path.parent)
        if path.is_symlink():
            pending.append(Path(os.path.normpath(path.parent / path.readlink())))
    return found


def inspection_of(base: str, script: str, **fields: Any) -> Inspection:
    empty: dict[str, Any] = {"requirements_locked": {"_meta": {}, "default": {}, "develop": {}}}
    record = {"base": base, "script": script, "python": empty, **fields}
    specification = load_specification(record)
    digest = hashlib.sha256(script.encode()).hexdigest()
    return Inspection(f"inspection-{digest[:8]}", specification, Script(script, None, digest))


def run(
    base: str, script: str, tmp_path: Path, **fields: Any
) -> tuple[PreparedInspection, JobResult]:
    inspection = inspection_of(base, script, **fields)
    launcher = ContainerLauncher(Settings.from_env({"THOTH_HOME": str(tmp_path)}))
    try:
        prepared = launcher.prepare(inspection)
        return prepared, launcher.run(prepared, Job(inspection.inspection_id, 0, "r", 0, 1, False))
    finally:
        launcher.close()


def containers(engine: Engine) -> list[str]:
    listed = engine.call("ps", "--all", "--format", "{{.Names}}").stdout.split()
    return [name for name in listed if name.startswith("thoth-")]


def test_container_job_runs_unprivileged_without_network(
    engine: Engine, base: str, tmp_path: Path
) -> None:
    script = """
import json, os, socket, sys
def attempt(act):
    try:
        return repr(act())
    except OSError as error:
        return type(error).__name__
status = dict(line.rstrip().split(":\\t") for line in open("/proc/self/status") if ":\\t" in line)
print(json.dumps({
    "@result": {"rate": 1},
    "inspection_id": "inspection-forged", "hostname": "forged", "exit_code": 0,
    "user": os.getuid(), "capabilities": status["CapEff"], "privileges": status["NoNewPrivs"],
    "interfaces": [name for _, name in socket.if_nameindex()],
    "write": attempt(lambda: open("/opt/thoth/script.py", "a")),
    "root": attempt(lambda: open("/x", "w")),
    "temporary": attempt(lambda: open("/tmp/x", "w").write("x")),
    "file": open("data/x.json").read(), "variable": os.environ["WANTED"],
    "secrets": [name for name in os.environ if "PROXY" in name.upper() or "SECRET" in name],
}))
print("seen", file=sys.stderr)
sys.exit(3)
"""
    os.environ["HTTP_PROXY"], os.environ["SECRET"] = "http://u:p@proxy.example", "x"
    try:
        prepared, job = run(
            base,
            script,
            tmp_path,
            files=[{"path": "data/x.json", "content": "$HOME\n`id`"}],
            environment=[{"name": "WANTED", "value": "a\nb $(id)"}],
        )
    finally:
        del os.environ["HTTP_PROXY"], os.environ["SECRET"]
    result = job.result
    said = result["stdout"]
    assert (result["exit_code"], result["ended"], result["stderr"]) == (3, "exited", "seen\n")
    assert result["inspection_id"] == prepared.inspection.inspection_id
    assert result["hostname"] == os.uname().nodename
    assert (said["user"], int(said["capabilities"], 16), said["privileges"]) == (10001, 0, "1")
    assert (said["interfaces"], said["temporary"]) == (["lo"], "1")
    assert (said["write"], said["root"]) == ("PermissionError", "OSError")
    assert (said["file"], said["variable"], said["secrets"]) == ("$HOME\n`id`", "a\nb $(id)", [])
    assert (result["launcher"], result["confined"], result["usage"]) == ("container", True, {})
    assert result["limits"]["cpu_quota"] == 0.5
    assert result["limits"]["memory_bytes"] == 256 * 2**20
    assert result["runtime_environment"]["python_version"] == prepared.python_version[:4]
    assert result["os_release"]["id"]
    assert prepared.dockerfile is not None
    assert prepared.dockerfile.startswith(f"FROM {base}\n")
    assert json.dumps(result)
    assert containers(engine) == []


def test_container_job_over_its_limits_ends_and_leaves_no_container(
    engine: Engine, base: str, tmp_path: Path
) -> None:
    _, greedy = run(base, "held = b'x' * 10**10\n", tmp_path)
    assert greedy.result["ended"] in {"memory-limit", "signalled"}
    assert greedy.result["exit_code"] == -9
    _, slow = run(base, "import time\ntime.sleep(600)\n", tmp_path, timeout_s=3)
    assert slow.result["ended"] == "timed-out"
    assert containers(engine) == []


def test_failed_image_build_reports_its_reason_and_keeps_its_log(base: str, tmp_path: Path) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor + 40}"
    with pytest.raises(BuildFailed) as refused:
        run(base, "pass\n", tmp_path, python={
            "requirements_locked": {"_meta": {"requires": {"python_version": version}},
                                    "default": {}},
        })  # fmt: skip
    assert refused.value.reason == "python-not-found"
    assert f"FROM {base}" in refused.value.log


def test_container_launcher_needs_a_base_image(engine: Engine, tmp_path: Path) -> None:
    inspection = inspection_of("python", "pass\n")
    launcher = ContainerLauncher(Settings.from_env({"THOTH_HOME": str(tmp_path)}))
    bare = load_specification({"script": "pass\n"})
    with pytest.raises(BuildFailed, match="base: missing"):
        launcher.prepare(Inspection(inspection.inspection_id, bare, inspection.script))
