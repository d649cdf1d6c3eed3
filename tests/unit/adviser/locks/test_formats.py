"""Locks in four formats: what is in them, where it comes from, and when there is none."""

import hashlib
import json
import random
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from packaging.pylock import Pylock
from packaging.specifiers import SpecifierSet

from adviser.locks.formats import (
    LockablePackage,
    LockFormat,
    LockOptions,
    UnwritableLock,
    environment_marker,
    render_lock,
)
from adviser.projects.parsing import parse_project
from adviser.projects.project import Project
from model.packages.environments import environment
from model.packages.releases import ReleaseFile, kind_of_file
from tests.factories.projects import BY_PIPENV, WHOLE

LINUX = environment("3.11", "manylinux_2_28_x86_64")
INDEX = "https://index.example/simple"
OPTIONS = LockOptions(LINUX, {"pypi": INDEX, "gpu": "https://me:hidden@gpu.example/simple/"})
EMPTY = Project()
ANY = "py3-none-any"


def file_named(filename: str, **facts: Any) -> ReleaseFile:
    digest = hashlib.sha256(filename.encode()).hexdigest()
    return replace(ReleaseFile(filename, digest, kind_of_file(filename)), **facts)


def digest_of(filename: str) -> str:
    return f"sha256:{hashlib.sha256(filename.encode()).hexdigest()}"


def chosen(name: str, version: str = "1.0", *tags: str, **facts: Any) -> LockablePackage:
    stem = name.replace("-", "_")
    names = [f"{stem}-{version}-{it}.whl" for it in tags or (ANY,)]
    names.append(f"{stem}-{version}.tar.gz")
    urls = {it: f"https://me:hidden@files.example/{it}#sha256=1" for it in names}
    return replace(
        LockablePackage(name, version, files=tuple(map(file_named, names)), urls=urls), **facts
    )


def text(format: LockFormat, *stack: LockablePackage, options: LockOptions = OPTIONS) -> str:
    return render_lock(format, stack, EMPTY, options).data.decode()


def pipfile_lock(project: Project, *stack: LockablePackage, options: LockOptions = OPTIONS) -> Any:
    return json.loads(render_lock(LockFormat.PIPFILE_LOCK, stack, project, options).data)


@pytest.mark.parametrize("format", LockFormat)
def test_written_lock_does_not_depend_on_the_order_of_packages_or_files(format: LockFormat) -> None:
    stack = [chosen(f"p{n}", dependencies=("p1", "p2")) for n in range(12)]
    first = render_lock(format, stack, EMPTY, OPTIONS)
    assert first.sha256 == hashlib.sha256(first.data).hexdigest()
    assert "hidden" not in first.data.decode()
    for seed in range(5):
        mixed = [
            replace(it, files=it.files[::-1], urls=dict(reversed(it.urls.items())))
            for it in random.Random(seed).sample(stack, len(stack))
        ]
        assert render_lock(format, mixed, EMPTY, OPTIONS) == first


def test_requirements_lock_lists_every_file_hash() -> None:
    one = chosen(
        "a-b", "1.0", ANY, "cp311-cp311-win_amd64", extras=("x", "w"), marker="os_name == 'posix'"
    )
    assert text(LockFormat.REQUIREMENTS, one) == (
        "# Made by thoth for CPython 3.11 on manylinux_2_28_x86_64.\n"
        "a-b[w,x]==1.0 ; os_name == 'posix' \\\n"
        + " \\\n".join(
            f"    --hash={it}" for it in sorted(digest_of(f.filename) for f in one.files)
        )
        + "\n"
    )


def test_constraints_have_neither_hashes_nor_extras() -> None:
    made = text(LockFormat.CONSTRAINTS, chosen("b", extras=("x",)), chosen("a", files=()))
    assert made.splitlines()[1:] == ["a==1.0", "b==1.0"]


@pytest.mark.parametrize(
    ("used", "lines"),
    [
        (("pypi",), []),
        (("gpu",), ["--index-url https://gpu.example/simple/"]),
        (("pypi", "gpu"), ["--extra-index-url https://gpu.example/simple/"]),
        (("pypi", "wheels"), ["--find-links file:///wheels"]),
    ],
)
def test_requirements_lock_names_indexes_other_than_the_default(
    used: tuple[str, ...], lines: list[str]
) -> None:
    options = replace(OPTIONS, indexes={**OPTIONS.indexes, "wheels": "file:///wheels"})
    stack = [chosen(f"p{n}", index=index) for n, index in enumerate(used)]
    made = text(LockFormat.REQUIREMENTS, *stack, options=options)
    assert [it for it in made.splitlines() if it.startswith("--")] == lines


@pytest.mark.parametrize("format", [LockFormat.REQUIREMENTS, LockFormat.PIPFILE_LOCK])
def test_lock_needs_the_url_of_each_index(format: LockFormat) -> None:
    with pytest.raises(UnwritableLock, match="the URL of the index none is unknown"):
        text(format, chosen("a", index="none"))


def test_pipfile_lock_has_the_hash_and_sources_of_its_pipfile() -> None:
    project = parse_project({"Pipfile": WHOLE.encode()})
    made = pipfile_lock(project, chosen("flask"), chosen("torch", index="gpu"))
    assert made["_meta"] == {
        "hash": {"sha256": BY_PIPENV},
        "pipfile-spec": 6,
        "requires": {"python_version": "3.11"},
        "sources": [
            {"name": "main", "url": INDEX, "verify_ssl": True},
            {"name": "gpu", "url": "https://gpu.example/simple", "verify_ssl": True},
        ],
    }
    assert made["default"]["flask"]["index"] == "main"
    assert made["default"]["torch"]["index"] == "gpu"


def test_pipfile_lock_is_formatted_as_pipenv_does() -> None:
    made = text(LockFormat.PIPFILE_LOCK, chosen("a", extras=("y", "x"), marker="os_name == 'nt'"))
    entry = json.loads(made)["default"]["a"]
    assert entry == {
        "version": "==1.0", "index": "pypi", "extras": ["x", "y"], "markers": "os_name == 'nt'",
        "hashes": sorted([digest_of("a-1.0.tar.gz"), digest_of(f"a-1.0-{ANY}.whl")]),
    }  # fmt: skip
    assert made.startswith('{\n    "_meta": {\n        "hash": {\n            "sha256": ')
    assert made.endswith('    "develop": {}\n}\n')


def test_develop_section_contains_only_packages_that_just_development_needs() -> None:
    project = parse_project(
        {"Pipfile": b"[packages]\na='*'\n[dev-packages]\nt='*'\n[docs]\ns='*'\nt='*'\n"}
    )
    made = pipfile_lock(
        project,
        chosen("a", dependencies=("shared", "b")),
        chosen("b", dependencies=("a",)),
        chosen("shared"),
        chosen("t", dependencies=("shared", "only-t", "not-there")),
        chosen("only-t"),
        chosen("s"),
        chosen("of-nobody"),
    )
    assert {key: list(it) for key, it in made.items() if key != "_meta"} == {
        "default": ["a", "b", "of-nobody", "shared"], "develop": ["only-t", "t"], "docs": ["s"]
    }  # fmt: skip


def test_source_urls_keep_variables_and_lose_passwords() -> None:
    for url, kept in (
        ("https://${U}:${P}@h.example/s", "https://${U}:${P}@h.example/s"),
        ("https://me:hidden@h.example/$x", "https://h.example/$x"),
    ):
        manifest = f"[[source]]\nname='m'\nurl='{url}'\nverify_ssl=true\n[packages]\n"
        made = pipfile_lock(parse_project({"Pipfile": manifest.encode()}), chosen("a"))
        assert made["_meta"]["sources"][0]["url"] == kept


def test_written_pylock_is_valid_according_to_the_packaging_standard() -> None:
    uploaded = datetime(2024, 5, 1, 10, tzinfo=UTC)
    wheel = f"a-1.0-{ANY}.whl"
    one = chosen("a", dependencies=("b", "none"), requires_python=">=3.8")
    one = replace(
        one, files=(file_named(wheel, size_bytes=7, uploaded_at=uploaded), *one.files[1:],
                    file_named("a-1.0.zip")),
        urls={**one.urls, "a-1.0.zip": "https://files.example/a-1.0.zip"},
    )  # fmt: skip
    made = tomllib.loads(text(LockFormat.PYLOCK, chosen("b"), one))
    lock = Pylock.from_dict(made)
    first = lock.packages[0]
    assert made["packages"][0]["wheels"] == [
        {"name": wheel, "url": f"https://files.example/{wheel}", "size": 7,
         "upload-time": uploaded, "hashes": {"sha256": digest_of(wheel)[7:]}}
    ]  # fmt: skip
    assert first.sdist is not None
    assert first.sdist.name == "a-1.0.tar.gz"
    assert (first.index, first.dependencies) == (INDEX, [{"name": "b"}])
    assert [it.name for it in lock.packages] == ["a", "b"]


def test_pylock_marker_matches_only_the_target_environment() -> None:
    marker = environment_marker(LINUX)
    assert marker.evaluate(dict(LINUX.markers))
    for python, platform in (
        ("3.12", "linux_x86_64"),
        ("3.11", "win_amd64"),
        ("3.11", "linux_aarch64"),
    ):
        assert not marker.evaluate(dict(environment(python, platform).markers))


def test_pylock_is_refused_without_urls_of_installable_files() -> None:
    with pytest.raises(UnwritableLock, match=r"a 1\.0: the URLs of its files") as caught:
        text(LockFormat.PYLOCK, chosen("a", urls={}))
    assert "requirements" in (caught.value.hint or "")
    two = chosen("a", "1.0", ANY, "cp311-cp311-win_amd64")
    other = {name: url for name, url in two.urls.items() if "win" in name}
    with pytest.raises(UnwritableLock):
        text(LockFormat.PYLOCK, replace(two, urls=other))
    fitting = {name: url for name, url in two.urls.items() if "any" in name}
    made = text(LockFormat.PYLOCK, replace(two, urls=fitting))
    assert "any.whl" in made
    assert "win" not in made


@pytest.mark.parametrize("format", [it for it in LockFormat if it is not LockFormat.CONSTRAINTS])
def test_only_installable_files_are_locked(format: LockFormat) -> None:
    wheel, yanked, egg = f"a-1.0-{ANY}.whl", "a-1.0-cp311-cp311-any.whl", "a-1.0-py3.11.egg"
    files = (
        file_named(wheel),
        file_named(yanked, yanked=True),
        file_named(egg),
        replace(file_named("a-1.0.tar.gz"), sha256=None),
    )
    urls = {it.filename: f"https://files.example/{it.filename}" for it in files}
    made = text(format, chosen("a", files=files, urls=urls))
    assert digest_of(wheel)[7:] in made
    assert made.count(digest_of(wheel)[7:]) == 1
    for other in (yanked, egg):
        assert digest_of(other)[7:] not in made


def test_files_of_a_yanked_release_can_be_locked() -> None:
    wheel = f"a-1.0-{ANY}.whl"
    made = text(LockFormat.REQUIREMENTS, chosen("a", files=(file_named(wheel, yanked=True),)))
    assert digest_of(wheel) in made


def test_on_request_only_wheels_for_the_target_environment_are_locked() -> None:
    one = chosen("a", "1.0", "cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-win_amd64")
    made = text(LockFormat.REQUIREMENTS, one, options=replace(OPTIONS, all_files=False))
    assert made.count("--hash") == 1
    assert digest_of(one.files[0].filename) in made
    elsewhere = chosen("a", "1.0", "cp311-cp311-win_amd64")
    with pytest.raises(UnwritableLock, match="no fitting wheel"):
        text(LockFormat.REQUIREMENTS, elsewhere, options=replace(OPTIONS, all_files=False))


@pytest.mark.parametrize("format", [it for it in LockFormat if it is not LockFormat.CONSTRAINTS])
@pytest.mark.parametrize("files", [(), (ReleaseFile("a-1.0-py3-none-any.whl", None, "wheel"),)])
def test_lock_is_refused_with_a_remedy_if_a_package_has_no_hashes(
    format: LockFormat, files: tuple[ReleaseFile, ...]
) -> None:
    with pytest.raises(UnwritableLock, match=r"a 1\.0: no file with a SHA-256 is known") as caught:
        text(format, chosen("a", files=files))
    assert "packages refresh" in (caught.value.hint or "")


@pytest.mark.parametrize("format", [LockFormat.REQUIREMENTS, LockFormat.CONSTRAINTS])
def test_lock_lists_path_and_url_requirements_as_missing_in_comments(format: LockFormat) -> None:
    content = b"a\n./localpkg\n-e ./other\nhttps://files.example/b-1.0-py3-none-any.whl\n"
    project = parse_project({"requirements.in": content})
    made = render_lock(format, [chosen("a")], project, OPTIONS).data.decode()
    comments = [it for it in made.splitlines() if it.startswith("# Not in this lock: ")]
    assert len(comments) == 3
    for name in ("./localpkg", "./other", "b-1.0-py3-none-any.whl"):
        assert sum(name in it for it in comments) == 1
    assert parse_project({"requirements.txt": made.encode()}).requirements[0].name == "a"


VERSION = LINUX.python_version


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        ([">=3.8", f">={VERSION}.5,<4"], f">={VERSION}.5"),
        # The upper end is in ``environments``, where PEP 751 puts it.
        ([">=3.8", None], f">={VERSION}"),
        ([f"<{VERSION}.9", ">=3.8"], f">={VERSION},<{VERSION}.9"),
    ],
)
def test_pylock_requires_a_patch_release_of_python_that_all_packages_accept(
    required: list[str | None], expected: str
) -> None:
    stack = [chosen(f"p{n}", requires_python=it) for n, it in enumerate(required)]
    lock = tomllib.loads(text(LockFormat.PYLOCK, *stack))
    assert SpecifierSet(lock["requires-python"]) == SpecifierSet(expected)
    assert f'python_version == "{VERSION}"' in lock["environments"][0]


def test_pylock_names_a_local_folder_as_index() -> None:
    options = replace(OPTIONS, indexes={**OPTIONS.indexes, "wheels": "file:///wheels"})
    lock = tomllib.loads(text(LockFormat.PYLOCK, chosen("a", index="wheels"), options=options))
    assert lock["packages"][0]["index"] == "file:///wheels"
