"""Specifications from files: strict JSON, references beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pis.amun.schema import InvalidSpecification
from pis.amun.specification_files import read_specification


def refusal(path: Path | str) -> str:
    with pytest.raises(InvalidSpecification) as refused:
        read_specification(str(path))
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
        (b"", "line 1, column 1"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\xff"}', "byte 7"),
        (b"[" * 100_000, "too deep"),
    ],
)
def test_what_is_not_a_strict_json_is_refused_with_its_place(
    tmp_path: Path, text: bytes, said: str
) -> None:
    path = tmp_path / "spec.json"
    path.write_bytes(text)
    assert said in refusal(path)
    assert str(path) in refusal(path)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
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


def referring(folder: Path, value: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "spec.json"
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    "value",
    [
        {"files": [{"path": "s", "content": {"file": "../home/secrets.json"}}]},
        {"script": {"file": "/etc/passwd"}},
        {"script": {"file": "link"}},
        {"script": {"file": "folder/secrets.json"}},
        {"python": {"requirements_txt": {"file": "a/../../home/secrets.json"}}},
    ],
)
def test_no_file_outside_the_folder_of_the_specification_is_read(
    tmp_path: Path, value: dict[str, Any]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/secrets.json").write_text('{"hidden": 1}')
    path = referring(tmp_path / "specs", value)
    (path.parent / "link").symlink_to(tmp_path / "home/secrets.json")
    (path.parent / "folder").symlink_to(tmp_path / "home")
    assert ".file: " in refusal(path)
    assert "in the specification's folder" in refusal(path)


def test_a_link_that_stays_in_the_folder_is_followed(tmp_path: Path) -> None:
    path = referring(tmp_path / "specs", {"script": {"file": "below/link"}})
    (path.parent / "script.py").write_text("print()")
    (path.parent / "below").mkdir()
    (path.parent / "below/link").symlink_to("../script.py")
    assert read_specification(str(path)) == {"script": "print()"}


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")
    assert "not a regular file" in refusal("/dev/zero")
    assert "not a regular file" in refusal(tmp_path)
    (tmp_path / "circle").symlink_to("circle")
    for name in ("pipe", ".", "circle"):
        assert "script.file: " in refusal(referring(tmp_path, {"script": {"file": name}}))


def test_all_files_together_have_the_bound_of_a_specification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pis.amun.specification_files._MOST_BYTES", 1000)
    (tmp_path / "half").write_text("x" * 600)
    assert read_specification(str(referring(tmp_path, {"script": {"file": "half"}})))
    files = [{"path": name, "content": {"file": "half"}} for name in ("a", "b")]
    assert "files[1].content.file: 'half': over" in refusal(referring(tmp_path, {"files": files}))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_a_lock_in_a_file_is_strict_json_too(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    value = {"python": {"requirements_locked": {"file": "lock"}}}
    assert "python.requirements_locked.file: " in refusal(referring(tmp_path, value))
