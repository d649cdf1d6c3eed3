"""Specifications from files: strict JSON, references beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pis.amun.files import read_specification
from pis.amun.problems import InvalidSpecification


def refusal(path: Path | str) -> str:
    with pytest.raises(InvalidSpecification) as refused:
        read_specification(str(path))
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
        (b"", "line 1, column 1"),
        (b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\xff"}', "byte 7"),
        (b"[" * 100_000, "too deep"),
    ],
)
def test_what_is_no_strict_json_is_refused_with_its_place(
    tmp_path: Path, text: bytes, said: str
) -> None:
    path = tmp_path / "spec.json"
    path.write_bytes(text)
    assert said in refusal(path)
    assert str(path) in refusal(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.json")


def test_files_beside_the_specification_are_read_in(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy==1\n")
    (tmp_path / "script.py").write_text("print()\n")
    (tmp_path / "Pipfile.lock").write_text('{"default": {}}')
    (tmp_path / "Pipfile").write_text('[packages]\nnumpy = "*"\n')
    value = {
        "script": {"file": "script.py"},
        "python": {
            "requirements": {"file": "Pipfile"},
            "requirements_locked": {"file": "Pipfile.lock"},
            "requirements_txt": {"file": "requirements.txt"},
        },
        "files": [{"path": "a", "content": {"file": "script.py"}}],
    }
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(value))
    assert read_specification(str(path)) == {
        "script": "print()\n",
        "python": {
            "requirements": {"packages": {"numpy": "*"}},
            "requirements_locked": {"default": {}},
            "requirements_txt": "numpy==1\n",
        },
        "files": [{"path": "a", "content": "print()\n"}],
    }


def test_all_files_that_are_missing_or_broken_are_named(tmp_path: Path) -> None:
    (tmp_path / "Pipfile.lock").write_text("{")
    python = {"requirements_txt": {"file": "none"}, "requirements_locked": {"file": "Pipfile.lock"}}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"python": python, "script": {"file": 5}}))
    told = refusal(path)
    assert "python.requirements_txt.file" in told
    assert "python.requirements_locked.file" in told
    assert "script.file" in told
