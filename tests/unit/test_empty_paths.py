"""An empty path on the command line is a usage error, not the current directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import thoth
from model.errors import InvalidArgument


@pytest.mark.parametrize(
    "arguments",
    [
        ("advise", ""),
        ("why", "numpy", "--project", ""),
        ("guard", "", "requirements.txt"),
        ("guard", "requirements.txt", ""),
        ("provenance", ""),
    ],
)
def test_an_empty_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THOTH_HOME", str(tmp_path / "home"))
    result = CliRunner().invoke(thoth, arguments)
    assert result.exit_code == 2
    assert "the path is empty" in result.output
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("arguments", [("provenance",), ("provenance", ".")])
def test_provenance_is_of_the_lock_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THOTH_HOME", str(tmp_path / "home"))
    (tmp_path / "requirements.txt").write_text("flask>=3\n", encoding="utf-8")
    result = CliRunner().invoke(thoth, arguments)
    assert isinstance(result.exception, InvalidArgument)
    assert str(result.exception) == "the project has no lock whose packages are all pinned"
