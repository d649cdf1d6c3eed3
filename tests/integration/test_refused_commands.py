"""Commands that are refused: the exit code is for scripts, standard error says why, nothing stays.

They run on the filled record, which refuses changes.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from common.settings import Settings
from graph.engine import relational_engine
from tests.services.commands import row_counts, thoth
from tests.services.ports import closed_port

#: Files by their names below ``{folder}``.
FILES: dict[str, bytes] = {
    "requirements.txt": b"core\n", "loose.txt": b"core>=1\n", "pinned.txt": b"core==1\n",
    "windows.txt": b"core==1; os_name == 'nt'\n",
    "empty.txt": b"# a tool failed\n", "broken/Pipfile.lock": b"{", "nothing/README": b"",
    "dump.jsonl": b"",
    "users": b"root:x:0:0:root:/root:/bin/bash\n", "project/requirements.in": b"flask\nnumpy\n",
    "toml/pyproject.toml": b"[project\n", "latin/pyproject.toml": b"[project]\nname = 'caf\xe9'\n",
    "elf/pyproject.toml": b"\x7fELF\0\0", "large/pyproject.toml": b"#" * (9 * 2**20),
    "bare/pyproject.toml": b"[project]\nname = 'a'\nversion = '1'\ndependencies = []\n",
}  # fmt: skip
MONKEY = "monkey {folder}/project --python 3.11 --platform manylinux_2_28_x86_64"
#: Commands, their exit codes, and what standard error names.
REFUSED: list[tuple[str, int, str]] = [
    ("advise {folder}/toml", 2, "invalid_toml"),
    ("advise {folder}/latin", 2, "not_utf8"),
    ("advise {folder}/elf", 2, "nul_character"),
    ("advise {folder}/large", 2, "file_too_large"),
    ("advise {folder}/bare", 2, "the project has no requirements"),
    ("advise {folder}/none", 2, "none: no such file or folder"),
    ("advise {folder}/nothing", 2, "nothing: no file lists requirements"),
    ("advise {folder}/requirements.txt --extra nope", 2, "hint: the project has no extras"),
    ("advise {folder}/requirements.txt --group nope", 2, "has no group 'nope'"),
    ("advise {folder}/users", 2, "is not a requirement"),
    ("advise {folder}/requirements.txt -o {folder}/out-pylock.toml", 2, "add --format"),
    ("advise {folder}/project --build --only-wheels", 2, "--build and --only-wheels"),
    ("advise {folder}/project --build --offline", 2, "--build and --offline"),
    ("advisories sync", 2, "ADVISORIES is not set"),
    ("advisories sync --osv", 2, "PyPI/all.zip in its public bucket"),
    ("advisories sync --osv all.zip", 2, "leave SOURCE out"),
    ("advisories sync /nowhere/all.zip", 2, "no such file or folder"),
    ("advisories sync ''", 2, "is empty"),
    ("advisories sync http://127.0.0.1:{port}/", 3, "try again later"),
    ("advisories list flask==final", 2, "not a version"),
    ("advisories list ../flask", 2, "not the name of a package"),
    ("advisories list nowhere.txt", 2, "no such file"),
    ("bisects none", 2, "see `thoth bisects`"),
    ("changes --since yesterday", 2, "--since"),
    ("check /bin/ls", 2, "not a report: it is not JSON"),
    ("cypher", 2, "query"),
    ("cypher 'RETURN 1' --file {folder}/users", 2, "--file"),
    ("cypher '  ;'", 2, "empty"),
    ("cypher 'RETURN 1' --param =1", 2, "--param"),
    ("explain zz", 2, "hint"),
    ("explain adviser-none/ab", 2, "hint"),
    ("explain ''", 2, "is empty"),
    ("explain adviser-none/", 2, "is empty"),
    ("export parquet {folder}/export --only secrets", 2, "inspections, observations"),
    ("fix {folder}/nothing", 2, "nothing: no file lists requirements"),
    ("fix {folder}/windows.txt", 2, "installs no package of an index here"),
    ("fix {folder}/empty.txt", 2, "locks no package of an index"),
    ("fix {folder}/pinned.txt --advisories ''", 2, "error: --advisories: no advisories are known"),
    ("guard {folder}/broken/Pipfile.lock {folder}/requirements.txt", 2, "invalid_json"),
    ("guard {folder}/loose.txt {folder}/pinned.txt", 2, "is not a lock"),
    ("guard {folder}/pinned.txt {folder}/empty.txt", 2, "empty.txt names no package, but "),
    ("ingest benchmarks {folder}/project --system dawn", 2, "'dawn' is not one of "),
    (MONKEY, 2, "--out: name the folder"),
    (f"{MONKEY} --out x", 2, "--pi: name an indicator"),
    (f"{MONKEY} --dry-run --only-packages nothing", 2, "--only-packages: nothing cannot be"),
    (f"{MONKEY} --dry-run --jobs 3", 2, "--jobs and --hours: a stack needs"),
    (f"{MONKEY} --dry-run --pi walk", 2, "'walk' is not an indicator"),
    (f"{MONKEY} --dry-run --submit queue", 2, "--submit and --dry-run"),
    ("packages add app --index elsewhere", 2, "local"),
    ("packages add app --index https://u:SECRET@h.example/simple", 2, "'https://h.example/simple'"),
    ("packages add 'not a name'", 2, "names no package"),
    ("packages add \"a; os_name=='nt'\"", 2, ""),
    ("packages add 'a b https://SECRET@h'", 2, "names no package"),
    ("packages add 'a @ https://u:SECRET@h/a.whl?t=SECRET'", 2, ""),
    ("packages add app --newer-than yesterday", 2, "is neither a date"),
    ("packages add app --max-versions 0", 2, "0"),
    ("packages import {folder}/dump.jsonl --as-of yesterday", 2, "--as-of"),
    ("packages import {folder}/dump.jsonl --as-of 2999-01-01", 2, "--as-of"),
    ("provenance {folder}/broken/Pipfile.lock", 2, "invalid_json"),
    ("report", 2, "missing argument"),
    ("report ab", 2, "a digest needs 4 digits"),
    ("report zzzzzz", 1, "no measured series and no inspection"),
    ("report {key} --baseline ffff", 1, "no measured stack has a digest"),
    ("report {key} -o /nowhere/at/all.html", 2, "/nowhere/at"),
    ("token create a", 2, "--scope"),
    ("token create a --scope root", 2, "root"),
    ("token create ' ' --scope read", 2, ""),
    ("token create 'a\x1b[31m' --scope read", 2, ""),
    ("token create a --scope read --expires soon", 2, "--expires"),
    ("token rotate token-unknown", 2, "token-unknown"),
    ("token rotate token-unknown --overlap never", 2, "--overlap"),
    ("token revoke token-000000000000", 2, "token-000000000000"),
    ("why core==2.0 --project {folder}/requirements.txt", 2, "more than the name of a package"),
]


@pytest.fixture(scope="module")
def record(filled: Settings) -> Iterator[Settings]:
    """The filled record, which has the same rows after all commands."""
    engine = relational_engine(filled)
    before = row_counts(engine)
    yield filled
    after = row_counts(engine)
    engine.dispose()
    assert after == before


@pytest.fixture(scope="module")
def places(filled_client: FlaskClient, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("refused")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    reports = filled_client.get("/api/v2/reports?indicator=PiMatmul&limit=1").get_json()["items"]
    return {"folder": str(folder), "key": reports[0]["comparison_key"], "port": str(closed_port())}


@pytest.mark.parametrize(("command", "code", "named"), REFUSED, ids=[it[0] for it in REFUSED])
def test_invalid_command_is_refused_without_traceback_or_secret(
    record: Settings, places: dict[str, str], command: str, code: int, named: str
) -> None:
    variables = {"ADVISORIES": "", "FETCH_MISSING": "0",
                 "PACKAGE_INDEXES": f"local=http://127.0.0.1:{places['port']}/simple"}  # fmt: skip
    arguments = [it.format_map(places) for it in shlex.split(command)]
    done = thoth(record, *arguments, **variables)
    assert (done.returncode, done.stdout) == (code, ""), (done.stdout, done.stderr)
    assert named.format_map(places) in done.stderr
    for unwanted in ("Traceback", "SECRET", "\x1b"):
        assert unwanted not in done.stderr
