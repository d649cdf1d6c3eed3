"""What ``thoth inspect`` refuses before anything is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.main import run, thoth
from pis.amun.installer import BuildLog
from pis.amun.launchers.images import _not_built
from tests.factories.specifications import specification

Said = Callable[..., str]


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Said:
    """What is said of a command that ends with exit code 2."""
    (tmp_path / "spec.json").write_text(json.dumps(specification()))
    monkeypatch.setenv("THOTH_HOME", str(tmp_path / "home"))

    def said(*arguments: str) -> str:
        assert run(thoth, ["inspect", str(tmp_path / "spec.json"), *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    return said


def test_a_timeout_is_a_number_of_seconds(refused: Said) -> None:
    for value in ("nan", "-nan", "inf", "0", "-1"):
        assert "--timeout" in refused("--timeout", value)


def test_a_folder_that_cannot_be_written_is_reported_before_anything_runs(
    refused: Said, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for out in ("", f"{tmp_path}/file", f"{tmp_path}/file/x", "/proc", "/proc/x"):
        told = refused("--out", out)
        assert "--out" in told
        assert "finished jobs are kept" not in told


@pytest.mark.parametrize("out", [[], ["--out", "out"]])
def test_a_home_that_cannot_be_used_is_a_setting_that_cannot_be_used(
    refused: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for home in ("/proc/nope", f"{tmp_path}/file"):
        monkeypatch.setenv("THOTH_HOME", home)
        assert "THOTH_HOME" in refused(*out)
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("launcher", ["ray", "container", "kubernetes"])
def test_scripts_are_trusted_on_this_machine_only(refused: Said, launcher: str) -> None:
    assert "--launcher local" in refused("--trust-script", "--launcher", launcher)


@pytest.mark.parametrize("field", ["trust_script", "trusted_script", "trusted", "confined"])
def test_no_document_trusts_its_own_script(refused: Said, tmp_path: Path, field: str) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({**specification(), field: True}))
    assert f"spec.json: {field}" in refused()


@pytest.mark.parametrize("launcher", ["container", "kubernetes"])
def test_a_launcher_of_images_needs_the_base(refused: Said, launcher: str) -> None:
    assert "spec.json: base: missing" in refused("--launcher", launcher)


@pytest.mark.parametrize(
    "said",
    [
        "Error: creating build container: initializing source docker://x.example/y: pinging",
        'Error: creating build container: short-name "y" did not resolve to an alias',
        "ERROR: failed to solve: x.example/y: failed to resolve source metadata for x.example/y",
        "manifest for y:1 not found: manifest unknown: manifest unknown",
        "pull access denied for y, repository does not exist",
    ],
)
def test_an_image_that_cannot_be_had_is_no_stack_that_does_not_build(said: str) -> None:
    assert _not_built(said, BuildLog(), 125).reason == "image-unavailable"


@pytest.mark.parametrize(
    "said",
    [
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'ConnectTimeoutError(<x>)'",
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NameResolutionError(<x>)'",
        "WARNING: The repository located at x.example is not a trusted or secure host and is being"
        " ignored.",
    ],
)
def test_an_index_that_pip_does_not_reach_is_not_the_stacks_fault(said: str) -> None:
    verdict = "ERROR: No matching distribution found for parrot==1.0"
    failure = _not_built(f"{said}\n{verdict}\n", BuildLog(), 1)
    assert (failure.reason, failure.host_problem) == ("index-unreachable", True)
