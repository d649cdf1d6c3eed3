"""The unmodified ``thamos`` client against the service: every command, over TLS, on the samples."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common import __version__
from graph.engine import relational_engine
from graph.record.analyses import analysis_of, request_of
from ingest.crawl.closure import CrawlBounds
from ingest.crawl.runs import add_packages, wanted_packages
from ingest.native.environments import analyze_image
from ingest.native.wheels import analyze_wheel, record_analysis
from ingest.runs import run as ingest
from tests.effort import slow
from tests.factories.images import ROOT as SYSTEM
from tests.factories.images import saved
from tests.factories.native import layer
from tests.services.commands import ROOT
from tests.services.environments import pinned_environment, virtual_environment
from tests.services.forking import Program, loaded
from tests.services.index import Index, package_index
from tests.services.served import Served, serving
from tests.services.waiting import DEADLINE_S

#: Wide enough that no table of the client is broken, and quick to try again.
_VARIABLES = {
    "COLUMNS": "400",
    "NO_COLOR": "1",
    # Nothing is installed where a test did not say.
    "PIP_REQUIRE_VIRTUALENV": "1",
    "THAMOS_NO_PROGRESSBAR": "1",
    "THAMOS_NO_EMOJI": "1",
    "THAMOS_RETRY_ON_ERROR_SLEEP": "0.1",
}


@dataclass(frozen=True, slots=True)
class World:
    """A service that knows the samples, two packages of its index, and a client that is loaded."""

    served: Served
    index: Index
    client: Program


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with a project, in which the client works."""

    folder: Path
    world: World

    def thamos(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command here, as a process of its own."""
        return self.world.client.run(arguments, variables(self.world.served), self.folder)

    def done(self, *arguments: str, **more: str) -> str:
        """What a command prints that ends well; ``more`` are variables."""
        environ = variables(self.world.served) | more
        ran = self.world.client.run(arguments, environ, self.folder)
        assert ran.returncode == 0, f"{arguments}: {ran}"
        return ran.stdout

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        """A file of the project; empty if it is not there."""
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


def variables(served: Served) -> dict[str, str]:
    """The environment of a client that trusts the service's certificate."""
    environ = {name: it for name, it in os.environ.items() if not name.startswith("THAMOS_")}
    return environ | _VARIABLES | {"REQUESTS_CA_BUNDLE": str(served.ca)}


SAMPLES = ROOT / "samples"
IMAGE = "registry.example:5000/py:v1"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
UNKNOWN = "adviser-240611083015-5f0c9d2be417a863"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="thoth-thamos-"))
    (folder / "home").mkdir()
    try:
        with package_index(protected=False, json=True) as index:
            environ = {"PACKAGE_INDEXES": f"pypi={index.url}", "QUERY_TOKENS": "1"}
            with serving(folder / "home", environ) as served:
                fill(served, index, folder)
                python = str(pinned_environment("thamos") / "bin" / "python")
                with loaded(python, folder, "thamos.cli:cli", "thamos") as client:
                    yield World(served, index, client)
    finally:
        shutil.rmtree(folder)


def fill(served: Served, index: Index, folder: Path) -> None:
    settings = served.settings
    for version in ("1.0", "2.0"):
        needs = (
            'Requires-Dist: demolib\nProvides-Extra: x\nRequires-Dist: demoextra; extra == "x"\n'
        )
        index.add_wheel("demoapp", version, "import demolib\n", metadata=needs)
    index.add_wheel("demolib", "1.5", "answer = 42\n")
    index.add_wheel("demoextra", "0.1")
    inspections = [str(SAMPLES / "inspections.tar.gz")]
    assert not ingest(settings, inspections, lambda: None).report.quarantined
    releases = SAMPLES / "packages.jsonl.gz"
    imported = served.thoth("packages", "import", str(releases), "--as-of", "2026-11-21")
    assert imported.returncode == 0, imported.stderr
    added = add_packages(
        settings, wanted_packages(["demoapp[x]"]), CrawlBounds(), index=None, watching=False
    )
    assert all(crawl.clean for crawl in added.report)
    wheel = folder / "demolib-1.5-py3-none-any.whl"
    wheel.write_bytes(index.files["demolib"][wheel.name])
    record_analysis(settings, analyze_wheel(wheel), "a test")
    image = analyze_image(str(saved(folder, [layer(SYSTEM)])), IMAGE)
    record_analysis(settings, image, "a test")


@pytest.fixture
def project(world: World, tmp_path: Path) -> Project:
    """A project of pipenv's that needs both, with all that a Pipfile may say."""
    made = Project(tmp_path, world)
    configure(made)
    made.write(
        "Pipfile",
        f"""
        [[source]]
        name = "main"
        url = "{world.index.url}"
        verify_ssl = false

        [packages]
        demoapp = {{version = "*", extras = ["x"]}}
        Flask = ">=3"
        MarkupSafe = ">=2"
        colorama = {{version = "*", markers = "sys_platform == 'win32'"}}

        [dev-packages]
        typing_extensions = "*"

        [requires]
        python_version = "{PYTHON}"

        [thoth.allow_prereleases]
        demolib = true
        """,
    )
    return made


@pytest.fixture
def small(world: World, tmp_path: Path) -> Project:
    """A project of one package, and no lock."""
    made = Project(tmp_path, world)
    configure(made)
    made.write("Pipfile", '[packages]\ndemoapp = "*"\n')
    return made


def configure(project: Project, *, form: str = "pipenv") -> None:
    host = project.world.served.base_url.removeprefix("https://")
    project.write(
        ".thoth.yaml",
        f"""
host: {host}
tls_verify: false
requirements_format: {form}
runtime_environments:
  - name: prod
    operating_system: {{name: debian, version: "12"}}
    python_version: "{PYTHON}"
    hardware: {{cpu_family: 26, cpu_model: 2, gpu_model: null}}
    platform: linux-x86_64
    cuda_version: null
    recommendation_type: latest
  - name: old
    operating_system: {{name: ubi, version: "8"}}
    python_version: "3.12"
""",
    )


def test_thamos_version_names_the_service(small: Project) -> None:
    assert f"api/v1: {__version__}\n" in small.done("version")
    assert json.loads(small.done("version", "--json"))["thoth_version"] == __version__


def test_thamos_advise_writes_a_lock_and_other_commands_read_the_result(project: Project) -> None:
    before = tomllib.loads(project.read("Pipfile"))
    project.done("advise", "--dev")
    assert meaning(tomllib.loads(project.read("Pipfile"))) == meaning(before)
    lock = json.loads(project.read("Pipfile.lock"))
    locked = {**lock["default"], **lock["develop"]}
    assert locked["demoapp"]["version"] == "==2.0"
    assert {"flask", "werkzeug", "markupsafe", "demolib", "demoextra"} <= lock["default"].keys()
    assert "colorama" not in locked
    assert lock["develop"].keys() == {"typing-extensions"}
    (source,) = lock["_meta"]["sources"]
    assert source["name"] == "main"
    for entry in locked.values():
        assert entry["version"].startswith("==")
        assert all(it.startswith("sha256:") for it in entry["hashes"])
        assert entry["hashes"]
        assert entry["index"] == "main"
    project.done("verify")
    tree = project.done("graph")
    assert re.search(r"^→ demoapp==2.0 .*\n  ↳ demoextra.*\n  ↳ demolib==1.5 ", tree, re.M)
    assert re.search(r"^→ typing-extensions==", tree, re.M)
    assert f"resolved for CPython {PYTHON}" in project.done("results")
    assert "succeeded" in project.done("status")
    assert "optimal" in project.done("log")
    # A second time there is a lock, which is better by nothing.
    project.done("advise", "--dev")
    assert json.loads(project.read("Pipfile.lock")) == lock
    assert "the project already has this stack" in project.done("results")


@pytest.mark.parametrize("kind", ["performance", *slow(["testing"])])
def test_thamos_advise_accepts_every_recommendation_type(small: Project, kind: str) -> None:
    result = json.loads(small.done("advise", "--no-write", "-t", kind, "-r", "old"))
    assert result["parameters"]["recommendation_type"] == kind
    (product,) = result["report"]["products"]
    assert product["project"]["runtime_environment"]["name"] == "old"
    assert small.read("Pipfile.lock") == ""


def test_thamos_advice_requested_without_waiting_is_available_later(small: Project) -> None:
    first = small.done("advise", "--no-wait", "--labels", "a=b;c=d,e").strip()
    assert re.fullmatch(r"adviser-\d{12}-[0-9a-f]{16}", first)
    assert small.read(".thoth_last_analysis_id").strip() == first
    assert small.done("advise", "--no-wait", "--labels", "c=d,e;a=b").strip() == first
    second = small.done("advise", "--no-wait", "--labels", "a=b;c=d,e", "--force").strip()
    assert second != first
    small.done("advise", "--force", "--no-write")  # the worker has done all before
    assert json.loads(small.done("status", second, "-o", "json"))["state"] == "succeeded"
    assert "attempt 1" in small.done("log", second)
    assert f"resolved for CPython {PYTHON}" in small.done("results", second)
    small.done("diff", first, second)


@pytest.mark.slow
def test_thamos_advise_reports_debug_output_and_manifest_changes(small: Project) -> None:
    report = json.loads(small.done("advise", "--json", "--debug", "--labels", "team=blue"))
    assert report["pipeline"].keys() == {
        "boots", "pseudonyms", "sieves", "steps", "strides", "wraps",
    }  # fmt: skip
    assert "search: " in small.done("log")
    assert "adviser-" in small.done("advise", "--short")
    small.done("advise", "--no-user-stack", "--no-static-analysis")
    written = small.folder / "changes.json"
    small.done("advise", "--write-advised-manifest-changes", str(written))
    assert json.loads(written.read_text("utf-8")) == {}


@pytest.mark.slow
def test_thamos_advises_a_project_with_requirements_files(small: Project) -> None:
    (small.folder / "Pipfile").unlink()
    configure(small, form="pip")
    small.write("requirements.txt", "demoapp\nflask>=3\n")
    small.write("constraints.txt", "demoapp<2\n")
    small.done("advise")
    assert {"demoapp", "flask>=3"} <= set(small.read("requirements.in").splitlines())
    text = small.read("requirements.txt")
    assert re.search(r"^demoapp==1\.0 \\\n +--hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    assert re.search(r"^demolib==1\.5", text, re.MULTILINE)
    assert small.thamos("verify").returncode == 2
    small.done("advise")
    assert small.read("requirements.txt") == text


@pytest.mark.parametrize(
    ("pipfile", "told", "status"),
    [
        ('demoapp = "==2.0"\ndemolib = "<1"', "no stack meets the request", "infeasible"),
        ('nobody-knows-this = "*"', "nobody-knows-this", "unknown"),
    ],
)
def test_thamos_explains_a_project_without_a_stack_and_writes_no_file(
    small: Project, pipfile: str, told: str, status: str
) -> None:
    small.write("Pipfile", f"[packages]\n{pipfile}\n")
    before = small.read("Pipfile")
    ran = small.thamos("advise")
    assert ran.returncode == 4
    assert told in ran.stdout + ran.stderr
    assert (small.read("Pipfile"), small.read("Pipfile.lock")) == (before, "")
    assert small.thamos("graph").returncode == 1
    small.done("results")
    assert status in small.done("log")


@pytest.mark.slow  # the client asks again and again
def test_thamos_reports_an_unknown_analysis_identifier(small: Project) -> None:
    for command in ("status", "log", "results", "graph"):
        ran = small.thamos(command, UNKNOWN)
        assert ran.returncode == 1
        assert UNKNOWN in ran.stderr


def meaning(pipfile: dict[str, Any]) -> dict[str, Any]:
    """A Pipfile without what the client writes in other words."""
    sections = {}
    for section in ("packages", "dev-packages"):
        entries = pipfile.get(section, {})
        sections[section] = {k.lower().replace("_", "-"): v for k, v in entries.items()}
    allowed = pipfile.get("thoth", {}).get("allow_prereleases", {})
    return {**sections, "source": pipfile["source"], "requires": pipfile["requires"],
            "allowed": allowed}  # fmt: skip


def test_thamos_provenance_accepts_only_an_advised_lock(small: Project) -> None:
    assert small.thamos("provenance-check").returncode == 3
    small.done("advise")
    small.done("provenance-check")
    identifier = small.read(".thoth_last_analysis_id").strip()
    assert identifier.startswith("provenance-checker-")
    assert "succeeded" in small.done("status")
    assert "attempt 1" in small.done("log")
    waiting = small.done("provenance-check", "--no-wait").strip()
    assert waiting == identifier
    assert small.done("provenance-check", "--no-wait", "--force").strip() != identifier
    lock = json.loads(small.read("Pipfile.lock"))
    lock["default"]["demolib"]["hashes"] = ["sha256:" + "0" * 64]
    small.write("Pipfile.lock", json.dumps(lock))
    ran = small.thamos("provenance-check", "--json")
    assert ran.returncode == 4
    found = {it["id"] for it in json.loads(ran.stdout)}
    assert "INVALID-ARTIFACT-HASH" in found


def test_thamos_lists_systems_indexes_images_and_modules(small: Project, world: World) -> None:
    assert re.search(r"debian +│ 12 +│ 3\.11", small.done("environments"))
    assert world.index.url in small.done("indexes")
    for options, listed in (
        ((), True),
        (("--library-name", "libc.so.6", "--os-name", "demo"), True),
        (("--os-name", "rhel"), False),
    ):
        assert (IMAGE in small.done("images", *options)) is listed
    assert re.search(r"demolib +│.*1\.5", small.done("whatprovides", "demolib"))
    ran = small.thamos("whatprovides", "nothing")
    assert ran.returncode == 1
    assert "No package providing 'nothing' found" in ran.stderr


@pytest.mark.slow
def test_stack_advised_to_thamos_is_installed_with_its_hashes(small: Project) -> None:
    small.done("advise")
    small.done("verify")
    environment = small.folder / "environment"
    small.done("install", PATH=virtual_environment(environment))
    (installed,) = environment.rglob("demolib.py")
    assert installed.read_text("utf-8") == "answer = 42\n"
    assert list(environment.rglob("demoapp.py"))


def test_thamos_token_in_a_url_is_accepted_if_the_operator_allows_it(
    small: Project, world: World
) -> None:
    """The command itself, loaded anew: the client reads its token as it is loaded."""
    secret = world.served.token("advise", "read")
    asked = ("advise", "--no-wait", "--force")
    done = subprocess.run(
        [str(pinned_environment("thamos") / "bin" / "thamos"), *asked], cwd=small.folder,
        env=variables(world.served) | {"THAMOS_TOKEN": secret}, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    identifier = done.stdout.strip()
    engine = relational_engine(world.served.settings)
    with engine.connect() as connection:
        analysis = analysis_of(connection, identifier)
        assert analysis is not None
        assert analysis.token_id is not None
        request = json.loads(request_of(connection, world.served.settings, analysis))
    engine.dispose()
    assert request["source_type"] == "cli"
    assert "origin" not in request
    assert secret not in world.served.log.read_text("utf-8")
