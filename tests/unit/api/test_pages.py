"""Pages: their addresses, the questions that they offer, and scripts of other projects."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from flask import Flask

from api.pages.questions import saved_questions
from api.pages.site import other_url
from tests.services.commands import ROOT


@pytest.mark.parametrize(
    ("query", "address"),
    [
        ("", "/stacks/a?after=c+d"),
        ("after=b&package=x:y", "/stacks/a?after=c+d&package=x:y"),
        ("name=b&_method=POST", "/stacks/a?name=b&_method=POST&after=c+d"),
        ("_scheme=other&_external=1", "/stacks/a?_scheme=other&_external=1&after=c+d"),
    ],
)
def test_query_parameters_do_not_become_path_parameters(query: str, address: str) -> None:
    app = Flask(__name__)
    app.add_url_rule("/stacks/<name>", "stack", lambda name: name)
    with app.test_request_context(f"/stacks/a?{query}"):
        assert other_url(after="c d") == address
        assert other_url(after=None, package=None, name=None, _method=None, _scheme=None,
                         _external=None) == "/stacks/a"  # fmt: skip


def test_every_cookbook_question_is_offered_on_the_query_page() -> None:
    text = (ROOT / "docs" / "cookbook.md").read_text("utf-8")
    headings = re.findall(r"^## (\d+)\. (.*)$", text, re.MULTILINE)
    assert [(str(it.number), it.title) for it in saved_questions().values()] == headings
    for question in saved_questions().values():
        assert set(re.findall(r"\$(\w+)", question.query)) == set(question.parameters)
        assert question.query in text


def test_query_form_values_are_converted_to_the_type_of_the_example() -> None:
    (listed,) = (it for it in saved_questions().values() if "frameworks" in it.parameters)
    assert listed.values({"frameworks": "torch, jax"})["frameworks"] == ["torch", "jax"]
    (sized,) = (it for it in saved_questions().values() if "smallest" in it.parameters)
    assert sized.values({"smallest": "512", "indicator": ""}) == {
        **sized.parameters, "smallest": 512,
    }  # fmt: skip
    with pytest.raises(ValueError, match="smallest"):
        sized.values({"smallest": "big"})


_PAGES = ROOT / "api" / "pages"
_VENDOR = _PAGES / "static" / "vendor"


def test_every_vendored_file_has_its_digest_and_licence() -> None:
    packages = json.loads((_VENDOR / "vendor.json").read_text("utf-8"))
    listed = {"vendor.json"}
    for package in packages:
        assert package["version"]
        assert package["license"] in {"MIT", "0BSD", "BSD-3-Clause", "ISC", "Apache-2.0"}
        for file in package["files"]:
            content = (_VENDOR / file["file"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file["sha256"], file["file"]
            listed.add(file["file"])
        assert any(it["source"] == "LICENSE" for it in package["files"]), package["package"]
    assert {it.name for it in _VENDOR.iterdir()} == listed


def test_pages_load_nothing_from_another_origin() -> None:
    for path in _own_files():
        foreign = re.findall(
            r"(?:src|href|action|url\()\W{0,2}(?:https?:)?//[^\s\"']*", path.read_text()
        )
        assert foreign == [], path


def test_pages_have_no_inline_script_or_style() -> None:
    for path in (_PAGES / "templates").iterdir():
        text = path.read_text("utf-8")
        inline = re.findall(
            r"<script(?![^>]*(?:src=|application/json))|<style| style=| on\w+=", text
        )
        assert inline == [], path


def test_cell_of_a_date_has_one_line() -> None:
    for path in (_PAGES / "templates").iterdir():
        broken = re.findall(r"<td>{{[^{}]*\| (?:moment|day) }}", path.read_text("utf-8"))
        assert broken == [], path


def _own_files() -> list[Path]:
    static = [it for it in (_PAGES / "static").iterdir() if it.suffix in {".js", ".css"}]
    return [*static, *(_PAGES / "templates").iterdir()]
