"""The scripts for pipelines of users: one comment, kept up to date, and no secret in sight."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from adviser.projects.locks import read_lock
from graph.engine import Stores
from tests.requirements import needs
from tests.services.commands import ROOT, THOTH, WHERE, variables
from tests.services.projection import measure
from tests.services.web import Quiet, answer, serve

TOKEN = "secret-token-of-a-test"
#: The paths of lists and of single comments.
_PATHS = re.compile(
    r"/repos/team/app/issues/7/comments|/repos/team/app/issues/comments/(\d+)"
    r"|/projects/42/merge_requests/7/notes(?:/(\d+))?"
)


@dataclass(slots=True)
class CodeHost:
    """Comments by identifier, and the method and path of each request.

    :param user: who writes with the token
    :param forbids: whether writing is refused, as for a pull request of a fork
    """

    url: str
    user: str = "github-actions[bot]"
    forbids: bool = False
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def add(self, body: str, user: str) -> int:
        """A comment; its author has the names of both hosts."""
        person = {"login": user, "username": user}
        number = len(self.requests) * 1000 + len(self.comments) + 1
        self.comments[number] = {"id": number, "body": body, "user": person, "author": person}
        return number

    @property
    def bodies(self) -> list[str]:
        return [it["body"] for it in self.comments.values()]

    @property
    def writes(self) -> list[str]:
        """Methods of all requests that change something."""
        return [method for method, _ in self.requests if method != "GET"]

    def answer(self, method: str, path: str, body: str) -> tuple[int, Any]:
        """Status and document."""
        address = urlsplit(path)
        if address.path == "/user":
            return 200, {"username": self.user}
        match = _PATHS.fullmatch(address.path)
        if match is None:
            return 404, None
        if method == "GET":
            query = {key: int(value[0]) for key, value in parse_qs(address.query).items()}
            begin = query["per_page"] * (query["page"] - 1)
            return 200, list(self.comments.values())[begin : begin + query["per_page"]]
        number = next((int(it) for it in match.groups() if it), None)
        return (403, None) if self.forbids else self._written(method, number, body)

    def _written(self, method: str, number: int | None, body: str) -> tuple[int, Any]:
        if number is None:
            return 201, {"id": self.add(body, self.user)}
        if method == "DELETE":
            del self.comments[number]
            return 204, None
        self.comments[number]["body"] = body
        return 200, self.comments[number]


@contextmanager
def code_host() -> Iterator[CodeHost]:
    """A code host on a free port of this machine, which knows :data:`TOKEN`."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            host.requests.append((self.command, self.path))
            known = (f"Bearer {TOKEN}", TOKEN)
            given = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN")
            body = json.loads(sent)["body"] if sent else ""
            status, document = (
                host.answer(self.command, self.path, body) if given in known else (401, None)
            )
            answer(self, status, b"" if document is None else json.dumps(document).encode())

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host = CodeHost(f"http://127.0.0.1:{server.server_port}")
    with serve(server):
        yield host


CI = ROOT / "deploy" / "ci"
SLOW = [200.0 * (1 + 0.002 * (-1) ** block) for block in range(10)]
FAST = [1.25 * rate for rate in SLOW]


@pytest.fixture
def host() -> Iterator[CodeHost]:
    with code_host() as running:
        yield running


@pytest.fixture
def hardware(stores: Stores, tmp_path: Path) -> str:
    """NumPy 2.1.0 is faster than 2.0.0 on this class of hardware."""
    stacks = (SLOW, {"numpy": "2.0.0"}), (FAST, {"numpy": "2.1.0"})
    return measure(stores, tmp_path / "inspections", *stacks)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose last commit has a lock with the faster version."""
    folder = tmp_path / "app"
    folder.mkdir()
    lock(folder, "2.1.0", "1")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "lock")
    return folder


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)  # noqa: S607


def lock(folder: Path, numpy: str, others: str) -> None:
    """A lock with NumPy and a hundred packages that nobody measured."""
    lines = [f"numpy=={numpy}", *(f"package-{it}=={others}" for it in range(100))]
    (folder / "app.lock.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def of_github(host: CodeHost, **more: str) -> dict[str, str]:
    return {
        "GUARD_HOST": "github",
        "GUARD_TOKEN": TOKEN,
        "GUARD_API": host.url,
        "GUARD_REPOSITORY": "team/app",
        "GUARD_REQUEST": "7",
        **more,
    }


def pipeline(
    stores: Stores, folder: Path, hardware: str, *options: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the script in a plain shell, with ``thoth`` on the path."""
    _, python, _, platform = WHERE
    where = {"GUARD_PYTHON": python, "GUARD_PLATFORM": platform, "GUARD_HARDWARE": hardware}
    path = f"{Path(THOTH).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | variables(stores.settings) | where | {"PATH": path} | more
    command = ["sh", str(CI / "guard.sh"), *options, "app.lock.txt"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def comment(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script that writes the comment."""
    file = folder / "comment.md"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, str(CI / "comment.py"), "app.lock.txt", str(file)]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )


def sarif_run(folder: Path) -> dict[str, Any]:
    (found,) = json.loads((folder / "guard-1.sarif").read_text("utf-8"))["runs"]
    return dict(found)


@needs("git")
@pytest.mark.slow
def test_pull_request_comment_is_updated_with_the_lock(
    stores: Stores, hardware: str, repository: Path, host: CodeHost
) -> None:
    """Nothing to say of a hundred changes without effect; then harm, less harm, and none."""
    other = host.add("looks good to me", "someone")
    lock(repository, "2.1.0", "2")
    quiet = pipeline(stores, repository, hardware, **of_github(host))
    assert quiet.returncode == 0, quiet.stderr
    assert "package-99: 1 → 2" in quiet.stdout
    brief = pipeline(stores, repository, hardware, "--brief")
    assert brief.returncode == 0, brief.stderr
    (line,) = brief.stdout.splitlines()
    assert line.startswith("app.lock.txt: not checked completely, data is missing")
    assert host.writes == []

    lock(repository, "2.0.0", "2")
    sarif = repository / "sarif"
    slower = pipeline(stores, repository, hardware, **of_github(host), GUARD_SARIF=str(sarif))
    assert slower.returncode == 1, slower.stderr
    inside = repository / "src"  # paths are relative to the top of the repository
    inside.mkdir()
    assert "result: harm" in pipeline(stores, inside, hardware, "--brief").stdout
    assert host.writes == ["POST"]
    body = host.bodies[-1]
    settled, _, folded = body.partition("<details>")
    assert settled.startswith("<!-- thoth-guard ")
    assert "\n  numpy 2.0.0 is " in settled
    assert "package-99" not in settled
    assert "package-99: 1 → 2" in folded
    (result,) = sarif_run(sarif)["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "app.lock.txt"
    assert place["region"]["startLine"] == 1

    lock(repository, "2.0.0", "1")
    again = pipeline(stores, repository, hardware, **of_github(host), GUARD_FAIL_ON="never")
    assert again.returncode == 0, again.stderr
    assert host.writes == ["POST", "PATCH"]
    assert "1 changed package," in host.bodies[-1]
    assert len(host.comments) == 2

    lock(repository, "2.1.0", "1")
    same = pipeline(stores, repository, hardware, **of_github(host))
    assert same.returncode == 0, same.stderr
    assert host.writes == ["POST", "PATCH", "DELETE"]
    assert list(host.comments) == [other]
    for done in (quiet, slower, again, same):
        assert TOKEN not in done.stdout + done.stderr
    assert not any(TOKEN in path for _, path in host.requests)


@needs("git")
@pytest.mark.slow
def test_ci_variables_become_options_of_guard(stores: Stores, repository: Path) -> None:
    lock(repository, "2.0.0", "1")
    asked = pipeline(stores, repository, "none", GUARD_SERVICE="http://127.0.0.1:1")
    assert asked.returncode == 3
    assert "check --service http://127.0.0.1:1" in asked.stderr
    read = pipeline(stores, repository, "none", GUARD_PACK="no-pack")
    assert (read.returncode, "no-pack" in read.stderr) == (2, True)
    shipped = pipeline(stores, repository, "none", GUARD_PACK="true")
    assert "/evidence" in shipped.stderr
    wrong = pipeline(stores, repository, "none", GUARD_OFFLINE="yes")
    assert (wrong.returncode, wrong.stderr) == (2, "GUARD_OFFLINE: write true or false\n")


@needs("git")
@pytest.mark.parametrize(
    "locks",
    [(), ("",), ("app.lock.txt", ""), ("../app.lock.txt",), ("src/../../a.txt",), ("/a/b.txt",)],
)
def test_guard_in_ci_requires_a_lock_inside_the_repository(
    repository: Path, locks: tuple[str, ...]
) -> None:
    command = ["sh", str(CI / "guard.sh"), *locks]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("guard.sh: ")


@needs("git")
def test_new_lock_is_not_compared(stores: Stores, repository: Path) -> None:
    git(repository, "mv", "app.lock.txt", "old.txt")
    git(repository, "commit", "--quiet", "--message", "renamed")
    lock(repository, "2.0.0", "1")
    sarif = repository / "sarif"
    done = pipeline(stores, repository, "none", GUARD_SARIF=str(sarif))
    assert (done.returncode, done.stdout) == (0, "")
    assert sarif_run(sarif)["results"] == []
    assert done.stderr == "app.lock.txt: the base revision does not have it\n"
    (repository / "app.lock.txt").unlink()
    nowhere = pipeline(stores, repository, "none")
    assert nowhere.returncode == 2
    assert nowhere.stderr == "app.lock.txt: neither revision has this file\n"


@needs("git")
def test_pull_request_comment_of_a_deleted_lock_is_removed(
    stores: Stores, hardware: str, repository: Path, host: CodeHost
) -> None:
    lock(repository, "2.0.0", "1")
    environment = of_github(host, GUARD_SARIF=str(repository / "sarif"))
    assert pipeline(stores, repository, hardware, **environment).returncode == 1
    before = sarif_run(repository / "sarif")
    (repository / "app.lock.txt").unlink()
    done = pipeline(stores, repository, hardware, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "app.lock.txt: the request deletes it\n"
    assert host.writes == ["POST", "DELETE"]
    # The same names, so that the code host closes the alerts.
    after = sarif_run(repository / "sarif")
    assert (len(before["results"]), after["results"]) == (1, [])
    assert after["automationDetails"] == before["automationDetails"]
    assert after["tool"]["driver"]["name"] == before["tool"]["driver"]["name"]


@needs("git")
def test_failed_comment_does_not_fail_the_pipeline(
    stores: Stores, hardware: str, repository: Path, host: CodeHost
) -> None:
    host.forbids = True
    lock(repository, "2.0.0", "1")
    environment = of_github(host, GUARD_FAIL_ON="never")
    done = pipeline(stores, repository, hardware, **environment)
    assert done.returncode == 0
    assert "the code host answers 403" in done.stderr
    assert TOKEN not in done.stdout + done.stderr


def test_merge_request_has_a_single_guard_comment(tmp_path: Path, host: CodeHost) -> None:
    host.user = "project_42_bot"
    environment = of_github(host, GUARD_HOST="gitlab", GUARD_REPOSITORY="42")
    # More comments than one page has.
    for number in range(120):
        host.add(f"comment {number}", "someone")
    for text in ("first", "second"):
        done = comment(text, tmp_path, **environment)
        assert done.returncode == 0, done.stderr
    assert host.writes == ["POST", "PUT"]
    assert [it.endswith("\nsecond") for it in host.bodies].count(True) == 1
    # Somebody else copied the marker: the comment is not ours.
    copied = host.add(host.bodies[-1], "someone")
    assert comment("", tmp_path, **environment).returncode == 0
    assert host.writes == ["POST", "PUT", "DELETE"]
    assert copied in host.comments


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"GUARD_TOKEN": "wrong"}, "the code host answers 401"),
        ({"GUARD_TOKEN": "two\nlines"}, "GUARD_TOKEN: not a token"),
        ({"GUARD_TOKEN": ""}, "GUARD_TOKEN is not set"),
        ({"GUARD_API": "http://host.example"}, "GUARD_API: https is needed"),
        ({"GUARD_HOST": "elsewhere"}, "GUARD_HOST: write github or gitlab"),
    ],
)
def test_invalid_ci_variable_is_named_without_its_value(
    tmp_path: Path, host: CodeHost, changed: dict[str, str], message: str
) -> None:
    done = comment("text", tmp_path, **{**of_github(host), **changed})
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(it in done.stderr for it in (TOKEN, "two", "wrong"))
    assert host.comments == {}


def stub(folder: Path, name: str, script: str) -> None:
    """A program that runs instead of the real one, if ``folder`` is first on the path."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def guard_script(
    folder: Path, script: Path, *programs: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the script in an environment that has nothing else."""
    path = os.pathsep.join([*map(str, programs), "/usr/local/bin", "/usr/bin", "/bin"])
    command, own = ["sh", str(script), "app.lock.txt"], {"PATH": path, "HOME": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=own | environment, capture_output=True, text=True, check=False
    )


@needs("git")
@pytest.mark.parametrize(
    ("measure", "option"),
    [("true", "--yes"), ("python bench.py --fast", "-- python bench.py --fast")],
)
def test_benchmarks_run_with_both_locks_before_guard_compares_them(
    repository: Path, tmp_path: Path, measure: str, option: str
) -> None:
    lock(repository, "2.0.0", "1")
    calls = f'echo "$@" "${{THOTH_TOKEN:-}}${{GUARD_TOKEN:-}}" >>{tmp_path}/calls'
    stub(tmp_path / "bin", "thoth", f'{calls}; [ "$1" = guard ] || exit 4')
    tokens = {"GUARD_TOKEN": TOKEN, "THOTH_TOKEN": TOKEN}
    done = guard_script(
        repository, CI / "guard.sh", tmp_path / "bin", GUARD_MEASURE=measure, **tokens
    )
    assert done.returncode == 0, done.stderr
    compared, guarded = (tmp_path / "calls").read_text("utf-8").splitlines()
    assert compared.startswith("compare ")
    assert option in compared
    assert "HEAD:app.lock.txt app.lock.txt --ingest" in compared
    assert guarded.startswith("guard ")
    assert [TOKEN in it for it in (compared, guarded)] == [False, True]

    git(repository, "checkout", "--quiet", ".")
    assert guard_script(repository, CI / "guard.sh", tmp_path / "bin", GUARD_MEASURE=measure)
    assert len((tmp_path / "calls").read_text("utf-8").splitlines()) == 3, (
        "an equal lock is measured"
    )


@needs("git")
def test_benchmark_that_fails_with_the_new_lock_fails_the_pipeline(
    repository: Path, tmp_path: Path
) -> None:
    lock(repository, "2.0.0", "1")
    stub(tmp_path / "bin", "thoth", '[ "$1" = guard ]')
    done = guard_script(repository, CI / "guard.sh", tmp_path / "bin", GUARD_MEASURE="true")
    assert (done.returncode, done.stderr) == (1, "app.lock.txt: it was not measured\n")
    refused = guard_script(
        repository, CI / "guard.sh", tmp_path / "bin", GUARD_MEASURE="true", GUARD_PACK="x"
    )
    assert refused.returncode == 2
    assert refused.stderr.startswith("GUARD_MEASURE: ")


@needs("git")
def test_guard_script_installs_a_missing_thoth_once_with_hashes(
    repository: Path, tmp_path: Path
) -> None:
    lock(repository, "2.0.0", "1")
    clone = tmp_path / "clone"
    shutil.copytree(CI, clone / "deploy" / "ci")
    made = clone / ".thoth" / "ci" / "bin"
    stub(
        tmp_path / "bin", "python3",
        f"""echo "$@" >>{tmp_path}/calls
        case "$@" in *--no-build-isolation*)
            mkdir -p {made}; echo 'echo compared' >{made}/thoth; chmod +x {made}/thoth;;
        esac""",
    )  # fmt: skip
    script = clone / "deploy" / "ci" / "guard.sh"
    for _ in range(2):
        done = guard_script(repository, script, tmp_path / "bin")
        assert (done.returncode, done.stdout) == (0, "compared\n"), done.stderr
    made_environment, locked, _ = (tmp_path / "calls").read_text("utf-8").splitlines()
    assert made_environment == f"-m venv {clone}/.thoth/ci"
    assert f"--require-hashes --requirement {clone}/locks/embedded.txt" in locked


def test_sample_workflow_uses_existing_inputs_and_files() -> None:
    sample = ROOT / "samples" / "uv-project"
    workflow = yaml.safe_load((sample / ".github/workflows/thoth.yml").read_text("utf-8"))
    *_, step = workflow["jobs"]["guard"]["steps"]
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    assert step["with"].keys() <= action["inputs"].keys()
    table = tomllib.loads((sample / "pyproject.toml").read_text("utf-8"))["tool"]["thoth"]
    commands = [it.split() for it in table["benchmarks"].values()]
    assert len(commands) == 2
    assert all((sample / file).is_file() for _, file in commands)
    locked = read_lock("uv.lock", {"uv.lock": (sample / "uv.lock").read_bytes()})
    assert {it.name for it in locked.entries} == {"jinja2", "markupsafe", "numpy"}


def test_github_action_passes_inputs_only_as_variables() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    steps = action["runs"]["steps"]
    assert [it for it in steps if "${{" in it["run"]] == []
    script = (CI / "guard.sh").read_text("utf-8") + (CI / "comment.py").read_text("utf-8")
    for step in steps:
        unknown = [it for it in step.get("env", ()) if it not in script and it != "GUARD_LOCK"]
        assert unknown == []
    used = str(steps)
    assert [it for it in action["inputs"] if f"inputs.{it}" not in used] == []


def test_pre_commit_hook_and_gitlab_template_run_the_guard_script() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert (ROOT / hook["entry"]).stat().st_mode & 0o111
    template = yaml.safe_load((CI / "gitlab" / "guard.yml").read_text("utf-8"))
    (job,) = template.values()
    assert job["script"][-1].endswith('deploy/ci/guard.sh "$GUARD_LOCK"')
