"""``thoth inspect``: what it refuses before anything is built, and what it tells."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cli.inspect import Lines, print_outcomes
from cli.main import run, thoth
from pis.amun.inspection_folder import InspectionOutcome, Noise
from pis.amun.installer import BuildLog, build_failure, reason_of
from pis.amun.launchers import BuildFailed, Job
from pis.amun.launchers.images import _not_built
from tests.factories.golden import compare_views
from tests.factories.specifications import measured, specification

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


def test_invalid_timeout_is_refused(refused: Said) -> None:
    for value in ("nan", "-nan", "inf", "0", "-1"):
        assert "--timeout" in refused("--timeout", value)


def test_unwritable_folder_is_reported_before_any_job_runs(refused: Said, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in ("", f"{tmp_path}/file", f"{tmp_path}/file/x", "/proc", "/proc/x"):
        told = refused("--out", out)
        assert "--out" in told
        assert "finished jobs are kept" not in told


@pytest.mark.parametrize("out", [[], ["--out", "out"]])
def test_unusable_home_folder_is_reported_by_its_setting(
    refused: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for home in ("/proc/nope", f"{tmp_path}/file"):
        monkeypatch.setenv("THOTH_HOME", home)
        assert "THOTH_HOME" in refused(*out)
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("launcher", ["ray", "container", "kubernetes"])
def test_trusted_scripts_need_the_local_launcher(refused: Said, launcher: str) -> None:
    assert "--launcher local" in refused("--trust-script", "--launcher", launcher)


@pytest.mark.parametrize("field", ["trust_script", "trusted_script", "trusted", "confined"])
def test_specification_cannot_trust_its_own_script(
    refused: Said, tmp_path: Path, field: str
) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({**specification(), field: True}))
    assert f"spec.json: {field}" in refused()


@pytest.mark.parametrize("launcher", ["container", "kubernetes"])
def test_image_launcher_needs_a_base_image(refused: Said, launcher: str) -> None:
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
def test_unavailable_base_image_is_not_blamed_on_the_stack(said: str) -> None:
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
def test_unreachable_index_during_a_build_is_not_blamed_on_the_stack(said: str) -> None:
    verdict = "ERROR: No matching distribution found for parrot==1.0"
    failure = _not_built(f"{said}\n{verdict}\n", BuildLog(), 1)
    assert (failure.reason, failure.host_problem) == ("index-unreachable", True)


OUT = Path("/out dir")
MEASURED = InspectionOutcome(
    "inspection-matmul-1f2e3d4c", OUT / "inspection-matmul-1f2e3d4c", "measured", "numpy", "2.2.6",
    3, 0, (10.0, 1234.5, 2000.0), "GFLOPS",
)  # fmt: skip
NOT_BUILT = InspectionOutcome(
    "inspection-matmul-00000000", OUT / "inspection-matmul-00000000", "build_failed", None, None,
    0, 0, (), None, BuildFailed("no-wheel", "there is none"),
)  # fmt: skip


def test_build_log_contains_no_password() -> None:
    lines: list[str] = []
    log = BuildLog(lines.append)
    log.write("from https://me:hidden@own.example/simple\nand more")
    error = build_failure("build-failed", "no answer from https://me:hidden@own.example", log)
    assert "hidden" not in str(error) + error.log + "".join(lines)
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("error: Hash mismatch for `numpy==2.2.6`", "hash-mismatch"),
        ("cause: No space left on device (os error 28)", "disk-full"),
        ("error sending request for url (http://x/)", "index-unreachable"),
        ("cause: dns error", "index-unreachable"),
        ("Because numpy==1.7.0 has no usable\n wheels and you require", "no-wheel"),
        ("Because there is no version of numpy==99.0", "no-wheel"),
        ("Because nobody was not found in the package registry", "no-wheel"),
        ("something else", "build-failed"),
    ],
)
def test_build_failure_reason_is_derived_from_installer_messages(said: str, reason: str) -> None:
    assert reason_of(said) == reason


def test_build_failure_can_be_sent_between_processes() -> None:
    import pickle

    error = BuildFailed("no-wheel", "there is none", log="all\n", exit_code=2, hint="another")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (again.reason, again.log, again.exit_code, again.hint) == (
        "no-wheel",
        "all\n",
        2,
        "another",
    )
    assert str(again) == "there is none [no-wheel]"


NOISY = replace(MEASURED, noise=(Noise(10, {"spread": 1, "steal": 5}, 0.97), Noise(10, {}, 0.02)))
BROKEN = replace(MEASURED, state="failed", measured=0, failed=1, fault="a unit", not_run=2)
OUTCOMES = {
    "a stack that was not built": [MEASURED, NOT_BUILT],
    "a job without a result": [replace(MEASURED, state="failed", failed=1, fault="a rate of zero")],
    "jobs that did not run": [BROKEN, replace(MEASURED, not_run=3)],
    "a long identifier": [replace(MEASURED, inspection_id=f"inspection-{'x' * 150}-1f2e3d4c")],
    "noise": [NOISY],
    "steady jobs": [replace(MEASURED, noise=(Noise(10, {}, 0.02),))],
}


def lines_of_jobs() -> list[str]:
    """What is told of three jobs while they run."""
    lines: list[str] = []
    told = Lines(lines.append)
    crashed = {"exit_code": 1, "stderr": "Trace\nValueError: \x1b[x\n"}
    told.jobs_started(3)
    for number, changes in enumerate(({}, crashed, {"stdout": "NaN"})):
        told.job_finished(Job("i", number, "r", number, 1, True), {**measured(), **changes})
    return lines


def test_inspection_outcomes_are_shown_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    views = {"jobs": "\n".join(lines_of_jobs())}
    for title, outcomes in OUTCOMES.items():
        print_outcomes(outcomes, OUT, as_json=False, ingested=title == "steady jobs")
        told = capsys.readouterr()
        print_outcomes(outcomes, OUT, as_json=True, ingested=False)
        document = capsys.readouterr()
        assert document.err == ""
        json.loads(document.out)
        views[title] = f"{told.out}--- stderr\n{told.err}--- JSON\n{document.out}"
    compare_views("inspections", views)
