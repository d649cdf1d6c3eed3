"""Scripts of other projects: each file is what its package published, with its licence."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from tests.services.commands import ROOT

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


def test_no_page_names_another_origin() -> None:
    for path in _own_files():
        foreign = re.findall(
            r"(?:src|href|action|url\()\W{0,2}(?:https?:)?//[^\s\"']*", path.read_text()
        )
        assert foreign == [], path


def test_no_page_has_a_script_or_a_style_of_its_own() -> None:
    for path in (_PAGES / "templates").iterdir():
        text = path.read_text("utf-8")
        inline = re.findall(
            r"<script(?![^>]*(?:src=|application/json))|<style| style=| on\w+=", text
        )
        assert inline == [], path


def _own_files() -> list[Path]:
    static = [it for it in (_PAGES / "static").iterdir() if it.suffix in {".js", ".css"}]
    return [*static, *(_PAGES / "templates").iterdir()]
