"""Recipes of images: what they say, and that no text of a specification becomes a part of them."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pis.amun.launchers.images import (
    HOME,
    InvalidRecipe,
    Recipe,
    is_reference,
    render,
    write_context,
)
from tests.factories.golden import compare_views

BASE = "registry.example/python:3.12"
HASH = f"--hash=sha256:{'0' * 64}"

#: Pieces that mean something to a recipe, a shell, JSON or a terminal.
PIECES = st.sampled_from(
    ["\n", "\r", "\r\n", "\u2028", "\x0b", "\\\n", "RUN id", "USER 0", "FROM x", "<<EOF", "\nEOF\n",
     '"', "'", "`", "$(id)", "${HOME}", "$HOME", "\\", "]", '", "', "#", "# syntax=evil", "--mount",
     "é", "名", "\ud800", "\0", "%", "{{", "ONBUILD RUN id", " ", "\t"]
)  # fmt: skip
hostile = st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join)


def test_containerfile_and_context_install_the_specified_stack(tmp_path: Path) -> None:
    recipe = Recipe(
        base=BASE,
        packages=("libgomp1", "zlib1g"),
        requirements=(f"numpy==2.1.0 {HASH}\n",),
        files=(("data/x.json", "{}"),),
        script="print('é')\r\n# $HOME `id`\n",
    )
    write_context(recipe, tmp_path)
    files = sorted(it for it in tmp_path.rglob("*") if it.is_file())
    views = {str(it.relative_to(tmp_path)): it.read_text() for it in files}
    assert views["Containerfile"] == render(recipe)
    assert (tmp_path / "script.py").read_bytes() == recipe.script.encode()
    compare_views("container_of_an_inspection", views)


@given(requirements=hostile, content=hostile, script=hostile)
@example(requirements="x\nRUN id", content="<<EOF\nRUN id\nEOF", script="# syntax=evil\nUSER 0")
def test_text_in_a_specification_cannot_inject_into_the_containerfile(
    requirements: str, content: str, script: str
) -> None:
    plain = Recipe(BASE, requirements=("",), files=(("a", ""),))
    attacked = Recipe(BASE, requirements=(requirements,), files=(("a", content),), script=script)
    assert render(attacked) == render(plain)


@given(path=hostile)
def test_specification_file_paths_cannot_leave_the_build_context(
    path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        recipe = Recipe(BASE, files=((path, "content"),))
    except InvalidRecipe:
        return
    assert render(recipe) == render(Recipe(BASE))
    assume("\0" not in path and len(path.encode("utf-8", "replace")) < 200)
    assume(not any(0xD800 <= ord(it) < 0xE000 for it in path))
    folder = tmp_path_factory.mktemp("context")
    write_context(recipe, folder)
    written = {it.relative_to(folder).as_posix() for it in folder.rglob("*") if it.is_file()}
    assert written == {"Containerfile", "script.py", f"work/{path}"}


@given(package=hostile)
@example(package="x\nRUN id")
@example(package="--allow-unauthenticated")
@example(package="-oAPT::Update::Pre-Invoke::=id")
def test_system_package_names_cannot_inject_shell_syntax(package: str) -> None:
    try:
        recipe = Recipe(BASE, packages=(package,))
    except InvalidRecipe:
        return
    assert package.isascii()
    assert package[0].isalnum()
    assert not set(package) & set(" \t\r\n'\"\\$`;&|<>(){}*?#=/")
    assert render(recipe) == render(Recipe(BASE, packages=("libgomp1",)))


@given(base=hostile | st.tuples(st.just(BASE), hostile).map("".join))
def test_base_image_cannot_inject_into_the_containerfile(base: str) -> None:
    try:
        recipe = Recipe(base)
    except InvalidRecipe:
        return
    lines = render(recipe).split("\n")
    assert lines[0] == f"FROM {base}"
    assert lines[1:] == render(Recipe(BASE)).split("\n")[1:]
    assert base.isascii()
    assert not set(base) & set(" \t\r\n'\"\\$`#<>{}")


@pytest.mark.parametrize(
    "reference",
    [
        "python",
        "python:3.12-slim",
        "team/python",
        "localhost/base:1",
        "registry.example:5000/a/b_c/d-e.f:1.0_x",
        f"registry.example/python:3.12@sha256:{'0f' * 32}",
        f"python@sha256:{'0f' * 32}",
    ],
)
def test_valid_image_reference_is_accepted(reference: str) -> None:
    assert is_reference(reference)


@pytest.mark.parametrize(
    "text",
    ["", " ", "-x", "--platform=x python", "python AS base", "python\n", "python\nRUN id", "Python",
     "$BASE", "${BASE}", "python:", "python@sha256:0f", "a//b", "/a", "a/", "../a", "http://a/b",
     "docker-archive:x", "oci:x", "dir:x", "a" * 300, "pythön", "python:3.12\\"],
)  # fmt: skip
def test_invalid_image_reference_is_refused(text: str) -> None:
    assert not is_reference(text)
    with pytest.raises(InvalidRecipe, match="base"):
        Recipe(text)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ".", "", "a//b", "a/"])
def test_specification_file_path_outside_the_working_folder_is_refused(path: str) -> None:
    with pytest.raises(InvalidRecipe, match="files"):
        Recipe(BASE, files=((path, ""),))


def test_everything_copied_by_the_containerfile_is_in_the_context(tmp_path: Path) -> None:
    recipe = Recipe(BASE, packages=("a",), requirements=("x", "y"), files=(("d", ""),))
    write_context(recipe, tmp_path)
    copied = [
        name
        for line in render(recipe).splitlines()
        if line.startswith("COPY ")
        for name in json.loads(line.removeprefix("COPY "))[:-1]
    ]
    assert len(copied) == 6
    assert all((tmp_path / name).exists() for name in copied)
    assert HOME not in "".join(copied)
