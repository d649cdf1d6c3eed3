"""Requirements files in pip's documented format."""

from dataclasses import replace

import pytest

from adviser.advice_request import RequestOptions, StackRequest, selected_requirements
from adviser.projects.parsing import missing_includes, parse_project
from adviser.projects.project import Project
from adviser.scoring.criteria import RecommendationType
from model.errors import InvalidFile, Reason
from tests.factories.errors import raised
from tests.factories.universes import ENVIRONMENT


def read(text: str | bytes, **others: str) -> Project:
    data = text if isinstance(text, bytes) else text.encode()
    given = {name.replace("_", "/", 1) + ".txt": it.encode() for name, it in others.items()}
    return parse_project({"requirements.in": data, **given})


@pytest.mark.parametrize(
    "data",
    [
        "\ufeffa>1\r\nb\r\n".encode(),
        "a>1\nb".encode("utf-16"),
        "a>1\nb".encode("utf-32"),
        "# -*- coding: latin-1 -*-\n# gr\xfcn\na>1\nb\n".encode("latin-1"),
        b"a>1\rb\r",
    ],
)
def test_requirements_files_are_read_in_any_encoding_with_any_line_ends(data: bytes) -> None:
    project = read(data)
    assert [it.text for it in project.requirements] == ["a>1", "b"]


@pytest.mark.parametrize("data", [b"a\xff", b"# coding: rot13\na", b"# coding: hm\na", b"a\0b"])
def test_binary_file_is_refused_as_a_requirements_file(data: bytes) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(data)
    assert caught.value.hint == "save it as UTF-8"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_requirements_file_without_byte_order_mark_is_refused(encoding: str) -> None:
    with raised(InvalidFile, reason=Reason.NUL_CHARACTER):
        read("numpy==2.3.5".encode(encoding))


def test_missing_included_files_are_listed() -> None:
    files = {"requirements.txt": b"-r a/b.txt\n-c c.txt\n", "a/b.txt": b"-r d.txt\n"}
    assert missing_includes(files) == {"c.txt", "a/d.txt"}
    assert missing_includes(files | {"c.txt": b"", "a/d.txt": b""}) == frozenset()
    more = files | {"c.txt": b"-r e.txt", "a/d.txt": b""}
    assert missing_includes(more, known=files.keys()) == {"e.txt"}
    # What follows a requirement on its line is ignored, as by pip.
    ignored = {"requirements.in": b"a -r c.txt\n-e . -r e.txt\n-r d.txt ; os_name == 'nt'\n"}
    assert missing_includes(ignored) == {"d.txt"}


@pytest.mark.parametrize(
    ("lines", "may_build"),
    [
        ("--only-binary :all:", ""),
        ("--only-binary A_a,b", "c"),
        ("--only-binary=:all: --no-binary b", "b"),
        ("--no-binary :all:\n--only-binary b", "a-a c"),
        ("--only-binary a-a,:all:,:none:", "a-a b c"),
        ("--only-binary :all:\n--no-binary :all:", "a-a b c"),
    ],
)
def test_only_binary_and_no_binary_limit_builds(lines: str, may_build: str) -> None:
    project = read(f"c>1\n{lines}\n")
    request = StackRequest(project, ENVIRONMENT, RecommendationType.LATEST, RequestOptions())
    rules = request.resolver_request({})
    assert [it for it in ("a-a", "b", "c") if rules.may_build(it)] == may_build.split()
    strict = replace(request, options=RequestOptions(only_wheels=True)).resolver_request({})
    assert not any(map(strict.may_build, ("a-a", "b", "c")))


@pytest.mark.parametrize("address", ["https://me:a b@h.example/s", 'https://me:a"b@h.example/s'])
def test_malformed_index_url_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        parse_project({"Pipfile": f"[[source]]\nname='a'\nurl='{address}'\n".encode()})
    assert "b@h" not in str(caught.value)


def test_environment_variables_are_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "flask")
    with pytest.raises(InvalidFile) as caught:
        read("${NAME}>=3\n")
    assert "variables are not expanded" in (caught.value.hint or "")


def test_overlong_line_of_a_requirements_file_is_refused() -> None:
    with raised(InvalidFile, place="requirements.in", field="1"):
        read("a==" + "1" * 3_000)


def test_requirement_with_an_extra_marker_does_not_apply_without_the_extra() -> None:
    (asked_for,) = read("a; extra == 'x'\n").requirements
    assert not asked_for.holds({"os_name": "posix"})


@pytest.mark.parametrize(
    "line", ["-i https://me:hidden@h 'x", "a https://me:hidden@h/x y", "-x https://me:hidden@h"]
)
def test_requirements_file_errors_contain_no_password(line: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(line)
    assert "hidden" not in f"{caught.value} {caught.value.hint}"


def test_unknown_extra_is_reported_with_its_field() -> None:
    with raised(InvalidFile, field="extras"):
        selected_requirements(read("a\n"), extras=["nope"])
