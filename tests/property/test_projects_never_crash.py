"""Whatever a project's files hold, reading gives a project or says what is wrong."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from adviser.advice_request import selected_requirements
from adviser.locks.formats import LockablePackage, LockFormat, LockOptions, render_lock
from adviser.projects.locks import read_lock
from adviser.projects.parsing import PROJECT_FILES, missing_includes, parse_project
from adviser.projects.project import Project
from common.formats.locks.entries import DEFAULT_SELECTION, LockSelection
from common.formats.requirements_files import lines_of
from model.errors import InvalidFile
from model.packages.environments import environment
from model.packages.releases import ReleaseFile, parse_requirement
from tests.effort import examples
from tests.factories.changed_documents import json_values, paths_of, replaced

HERE = environment("3.11", "linux_x86_64")
NAMES = [*PROJECT_FILES, "pylock.toml", "pylock.x.toml", "a/b.txt", "c.toml"]

#: Fragments of the formats, so that texts come near to something that can be read.
fragments = st.sampled_from(
    [
        "[packages]\n", "[dev-packages]\n", "[[source]]\n", "name = 'm'\n", "url = 'https://h/s'\n",
        "a = '*'\n", "a = {git = 'x'}\n", "[project]\n", "dependencies = ['a>1']\n", "-r a/b.txt\n",
        "[dependency-groups]\n", "dev = ['a', {include-group = 'dev'}]\n", "-c constraints.txt\n",
        "a==1 --hash=sha256:aa\n", "--pre\n", "-e .\n", "\\\n", "# c\n", "'", '"', "\\", "-", "--",
        "a[x]>=1; os_name == 'nt'\n", "a; os_name ~= 'x'\n", "a @ https://u:p@h/x\n", "${X}",
        "(" * 90,
        "a==1.*\n", "a===x\n", "\x0c", "\x85", "\u2028", "\ufeff", "https://[::1\n", "-i https://[\n",
        '{"default": {"a": {"version": "==1"}}}', "lock-version = '1.0'\n", "[[packages]]\n",
    ]
)  # fmt: skip
texts = st.lists(fragments | st.text(max_size=8), max_size=8).map("".join)
contents = texts.map(lambda it: it.encode("utf-8", "surrogatepass")) | st.binary(max_size=40)
files = st.dictionaries(st.sampled_from(NAMES), contents, max_size=4)

values = json_values(
    st.integers() | st.text(max_size=8)
    | st.sampled_from(["==1", "*", ">=3.6.*", "os_name ~= 'x'", "https://u:p@[::1]:x/",
                       "a" * 3_000]),
)  # fmt: skip

WHOLE: dict[str, Any] = {
    "Pipfile": {
        "source": [{"name": "m", "url": "https://h.example/s", "verify_ssl": True}],
        "packages": {"a": "*", "b": {"version": ">1", "extras": ["x"], "markers": "os_name == 'a'",
                                     "index": "m", "python_version": "> '3'"}},
        "dev-packages": {"c": {"git": "x"}},
        "requires": {"python_version": "3.11"},
        "pipenv": {"allow_prereleases": True},
        "thoth": {"allow_prereleases": {"a": True}},
    },
    "pyproject.toml": {
        "project": {"name": "me", "dependencies": ["a>1"], "requires-python": ">=3",
                    "optional-dependencies": {"x": ["b", "me[x]"]}, "dynamic": ["version"]},
        "dependency-groups": {"dev": ["c", {"include-group": "t"}], "t": ["d"]},
        "tool": {"uv": {"index": [{"name": "m", "url": "https://h.example/s", "default": True}],
                        "sources": {"a": {"index": "m"},
                                    "b": [{"git": "x", "marker": "os_name=='a'"}]},
                        "constraint-dependencies": ["e<2"], "prerelease": "allow"}},
    },
    "Pipfile.lock": {
        "_meta": {"hash": {"sha256": "0"}, "requires": {"python_version": "3.11"},
                  "sources": [{"name": "m", "url": "https://h.example/s", "verify_ssl": True}]},
        "default": {"a": {"version": "==1", "hashes": ["sha256:aa"], "markers": "os_name == 'a'",
                          "index": "m", "extras": ["x"]}},
        "develop": {"b": {"git": "x"}},
    },
    "pylock.toml": {
        "lock-version": "1.0", "created-by": "x", "requires-python": ">=3",
        "environments": ["os_name == 'posix'"],
        "packages": [
            {"name": "a", "version": "1", "marker": "'x' in extras",
             "dependencies": [{"name": "b"}], "index": "https://h.example/s",
             "wheels": [{"name": "a-1-py3-none-any.whl", "url": "https://h.example/a",
                         "size": 1, "hashes": {"sha256": "aa"}}],
             "sdist": {"name": "a-1.tar.gz", "path": "a", "hashes": {"sha256": "bb"}}},
            {"name": "b", "directory": {"path": ".", "editable": True}},
        ],
    },
    "uv.lock": {
        "version": 1, "requires-python": ">=3",
        "package": [
            {"name": "me", "source": {"virtual": "."}, "dependencies": [
                {"name": "a", "extra": ["x"], "marker": "os_name == 'posix'"}],
             "dev-dependencies": {"dev": [{"name": "b"}]}},
            {"name": "a", "version": "1", "source": {"registry": "https://h.example/s"},
             "optional-dependencies": {"x": [{"name": "b"}, {"name": "a"}]},
             "wheels": [{"url": "https://h.example/a-1-py3-none-any.whl", "hash": "sha256:aa",
                         "size": 1}]},
            {"name": "b", "version": "1", "source": {"git": "https://h.example/b"}},
        ],
        "conflicts": [[{"package": "me", "extra": "x"}, {"package": "me", "group": "y"}]],
        "manifest": {"members": ["me"], "dependency-groups": {"dev": [{"name": "a"}]}},
        "supported-markers": ["os_name == 'posix'"],
    },
    "poetry.lock": {
        "package": [
            {"name": "a", "version": "1", "python-versions": ">=3,<4 || ^5", "optional": True,
             "groups": ["main", "dev"], "markers": {"main": "extra == 'x'"},
             "dependencies": {"B": [{"version": "^1", "markers": "os_name == 'posix'"}]},
             "extras": {"x": ["b (>1)"]}, "files": [{"file": "a-1.tar.gz", "hash": "sha256:aa"}]},
            {"name": "b", "version": "1", "python-versions": "*", "groups": ["main"],
             "source": {"type": "git", "url": "git@h.example:b", "resolved_reference": "1f"}},
        ],
        "extras": {"x": ["a"]},
        "metadata": {"lock-version": "2.0", "python-versions": "^3.9", "files": {"b": []}},
    },
    "pdm.lock": {
        "metadata": {"groups": ["default", "dev"], "strategy": [], "lock_version": "4.5.0",
                     "targets": [{"requires_python": ">=3", "platform": "manylinux_2_17_x86_64"}]},
        "package": [
            {"name": "a", "version": "1", "extras": ["x"], "requires_python": ">=3",
             "groups": ["default"], "marker": "os_name == 'posix'", "dependencies": ["a==1", "b"],
             "files": [{"url": "https://h.example/a-1.tar.gz", "hash": "sha256:aa"}]},
            {"name": "b", "version": "1", "git": "https://h.example/b", "revision": "1f"},
        ],
    },
    "pixi.lock": {
        "version": "6",
        "environments": {"default": {"indexes": ["https://h.example/s"], "packages": {
            "linux-64": [{"pypi": "https://h.example/a-1.tar.gz"}, {"conda": "h/b-1-0.conda"}]}}},
        "packages": [{"pypi": "https://h.example/a-1.tar.gz", "name": "a", "version": "1",
                      "sha256": "aa"}],
    },
}  # fmt: skip


def check(read: Callable[[], Any]) -> Any:
    """Only one kind of error, and it says where and what to do."""
    told: InvalidFile | None = None
    try:
        return read()
    except InvalidFile as error:
        told = error
    assert told.hint
    assert told.place
    assert told.message
    str(told).encode()  # can be printed
    return None


def check_project(given: dict[str, bytes]) -> None:
    project = check(lambda: parse_project(given))
    if project is None:
        return
    asked = [*project.requirements, *project.dev, *project.constraints, *project.overrides]
    for it in asked:
        it.holds(HERE.markers)
        assert parse_requirement(it.text).name == it.name
        assert it.origin.partition(":")[0] in given
    selected_requirements(project, dev=True, extras=project.extras, groups=project.groups)
    project.locked_in(HERE.markers)
    for warning in project.warnings:
        f"{warning.field} {warning.message}".encode()
        assert warning.field.partition(":")[0] in given


@given(files)
@settings(max_examples=examples(400), deadline=None)
def test_any_files_are_read_as_a_project_or_refused_with_a_reason(given: dict[str, bytes]) -> None:
    check_project(given)
    check(lambda: missing_includes(given))


@given(st.sampled_from(NAMES), contents)
@settings(max_examples=examples(200), deadline=None)
def test_any_file_is_read_as_a_lock_or_refused_with_a_reason(name: str, content: bytes) -> None:
    check_lock(name, {name: content})


def check_lock(name: str, given: dict[str, bytes]) -> None:
    selection = LockSelection(frozenset({"x"}), frozenset({"dev"}))
    for chosen, markers in (
        (DEFAULT_SELECTION, None), (DEFAULT_SELECTION, HERE.markers), (selection, HERE.markers)
    ):  # fmt: skip
        lock = check(partial(read_lock, name, given, chosen, markers))
        if lock is not None:
            lock.packages(HERE.markers)


def encoded(name: str, document: Any) -> bytes | None:
    """As a file; ``None`` for what the format cannot hold."""
    if name in ("Pipfile.lock", "pixi.lock"):  # JSON is YAML
        return json.dumps(document).encode()
    try:
        return tomli_w.dumps(document).encode()
    except (TypeError, AttributeError, ValueError):
        return None


@pytest.mark.parametrize("name", WHOLE)
def test_unchanged_sample_projects_are_valid(name: str) -> None:
    data = encoded(name, WHOLE[name])
    assert data is not None
    assert isinstance(parse_project({name: data}), Project)


@given(st.data(), st.sampled_from(sorted(WHOLE)), values)
@settings(max_examples=examples(600), deadline=None)
def test_project_file_with_any_value_replaced_is_read_or_refused(
    data: st.DataObject, name: str, value: Any
) -> None:
    path = data.draw(st.sampled_from([(), *paths_of(WHOLE[name])]))
    content = encoded(name, replaced(WHOLE[name], path, value))
    if content is not None:
        check_project({name: content})
        if name.endswith(".lock"):
            check_lock(name, {name: content})


lines = st.lists(
    st.sampled_from(
        ["a", "b==1", " ", "#", "\\", "\n", "\r\n", " # c", "\\\n", " --hash=sha256:aa", "-r x.txt",
         "-rx.txt", "--requirement=x", "-e .", "--pre", "'", "; os_name == 'nt'", "-i https://h",
         "https://h/a#egg=a", "\u2028"]
    ), max_size=9,
).map("".join)  # fmt: skip


@given(lines)
@settings(max_examples=examples(400), deadline=None)
def test_requirement_lines_are_read_as_pip_reads_them(text: str) -> None:
    requirements_files = pytest.importorskip("pip._internal.req.req_file")
    try:
        mine = list(lines_of(text, "requirements.txt"))
    except InvalidFile:
        return  # stricter than pip about options that stand where they mean nothing
    theirs, parse = [], requirements_files.get_line_parser(None)
    for number, line in requirements_files.preprocess(text):
        try:
            requirement, options = parse(line)
        except requirements_files.OptionParsingError:
            return  # pip refuses it
        if options.editables and options.hashes:
            return  # pip refuses them together when it installs
        # A semicolon that touches a value begins a marker, which pip takes for a part of the value.
        values = (it for found in (options.hashes or {}).values() for it in found)
        hashes = [it.removesuffix(";") for it in values]
        included = [it.removesuffix(";") for it in (options.requirements or [])[:1]]
        url = options.index_url and options.index_url.removesuffix(";")
        # pip ignores hashes without a requirement, and other options beside one.
        if requirement.strip() or options.editables:
            included, url = [], None
        else:
            hashes = []
        theirs.append((number, requirement.strip(), hashes, included, url))
    assert theirs == [
        (
            it.number,
            it.requirement,
            [hash.removeprefix("sha256:") for hash in it.values("--hash")],
            it.values("--requirement")[:1],
            next(iter(it.values("--index-url")[::-1]), None),
        )
        for it in mine
    ]


names = st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,3})?", fullmatch=True)
versions = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,2}){0,2}(rc[0-9])?", fullmatch=True)


@given(st.dictionaries(names, versions, min_size=1, max_size=6), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_written_lock_equals_the_lock_read_back(stack: dict[str, str], data: st.DataObject) -> None:
    from packaging.version import Version

    chosen = []
    for name, text in stack.items():
        version, stem = str(Version(text)), name.replace("-", "_")
        file = f"{stem}-{version}-py3-none-any.whl"
        needs = data.draw(st.sets(st.sampled_from(sorted(stack))))
        chosen.append(
            LockablePackage(
                name, version, files=(ReleaseFile(file, "ab" * 32, "wheel"),),
                dependencies=tuple(sorted(needs)), urls={file: f"https://h.example/{file}"},
            )
        )  # fmt: skip
    options = LockOptions(HERE, {"pypi": "https://h.example/simple"})
    for format in LockFormat:
        lock = render_lock(format, chosen, Project(), options)
        read = read_lock(lock.name, {lock.name: lock.data})
        assert read.complete
        assert all(it.hashes for it in read.entries) == (format is not LockFormat.CONSTRAINTS)
        installed = read.packages(HERE.markers).values()
        assert {it.name: it.version for it in installed} == {it.name: it.version for it in chosen}
        shuffled = data.draw(st.permutations(chosen))
        assert render_lock(format, shuffled, Project(), options) == lock
