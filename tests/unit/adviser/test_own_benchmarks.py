"""A project's own benchmarks decide about the packages that they cover, before indicators."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from adviser.advise import Advice, advise
from adviser.reports.checking import check_offline
from adviser.reports.documents import result_document
from adviser.reports.summary import summary_of
from adviser.scoring.criteria import RecommendationType
from model.measurements.evidence import Series
from model.measurements.units import Unit
from tests.factories.evidence import NOW, Bench, jobs, series
from tests.factories.reports import report_of
from tests.factories.requests import known_for, request_for, snapshot_for
from tests.factories.universes import Index

INDEX: Index = {"fast": {"2": {}, "1": {}}, "web": {"2": {}, "1": {}}}
BENCHMARKS = '[benchmarks]\ntrain = "python bench.py"\n'


def command(text: str = "python bench.py", files: str = "f" * 64) -> Series:
    parameters = {"command": text, "files_sha256": files}
    return series("command", parameters=parameters, device=None, unit=Unit.RUNS_PER_SECOND)


def measured(bench: Bench, speed: float, how: Series, package: str = "fast", age: int = 9) -> None:
    """Ten jobs of both versions of a package; the newer is as fast as ``speed``."""
    other = "web" if package == "fast" else "fast"
    for version, level in (("1", 0.0), ("2", math.log(speed))):
        stack = bench.stack(f"{package}=={version}", f"{other}==1")
        bench.measure(stack, jobs(level, 10), how, begin=NOW - timedelta(days=age))


def advised(
    bench: Bench,
    benchmarks: str = BENCHMARKS,
    kind: RecommendationType = RecommendationType.BEST,
    now: str | None = None,
) -> Advice:
    """:param now: digest of the files that the command names, where the project is here"""
    files = {
        "requirements.in": "fast\nweb\n", "requirements.txt": "fast==1\nweb==1\n",
        "thoth.toml": benchmarks,
    }  # fmt: skip
    request = request_for(files=files, kind=kind)
    request = replace(request, benchmark_files={} if now is None else {"train": now})
    return advise(request, snapshot_for(request, INDEX), bench.evidence())


def versions(advice: Advice) -> dict[str, str]:
    return advice.best.versions()


@pytest.mark.parametrize(("own", "chosen"), [(1.2, "2"), (0.8, "1")])
def test_project_benchmark_overrules_a_contradicting_indicator(own: float, chosen: str) -> None:
    bench = Bench()
    measured(bench, 1 / own, series("PiMatmul"))
    measured(bench, own, command())
    advice = advised(bench)
    assert versions(advice)["fast"] == chosen
    assert advice.assessment.choices["fast"].benchmarks == ("train",)
    text = summary_of(advice)
    assert "train is your project's own benchmark" in text
    assert "in `python bench.py`" in text
    assert "PiMatmul" not in text
    assert result_document(advice, known_for(advice))["parameters"]["benchmarks"] == {
        "train": "python bench.py"
    }


def test_newest_version_is_advised_despite_an_overruled_indicator() -> None:
    bench = Bench()
    measured(bench, 0.7, series("PiMatmul"))
    measured(bench, 1.2, command())
    latest = RecommendationType.LATEST
    assert versions(advised(bench, kind=latest))["fast"] == "2"
    assert versions(advised(bench, "", latest))["fast"] == "1"


def test_indicator_decides_for_packages_without_a_project_benchmark() -> None:
    bench = Bench()
    measured(bench, 1.2, command())
    measured(bench, 0.7, series("PiMatmul"), "web")
    advice = advised(bench)
    assert versions(advice) == {"fast": "2", "web": "1"}
    choices = advice.assessment.choices
    assert [choices[name].benchmarks for name in ("fast", "web")] == [("train",), ()]
    assert "PiMatmul is a bundled indicator" in summary_of(advice)


def test_command_that_is_no_project_benchmark_weighs_less_than_indicators() -> None:
    bench = Bench()
    measured(bench, 1.2, command())
    advice = advised(bench, "")
    assert advice.assessment.choices["fast"].indicators == ("command",)
    assert summary_of(advice).endswith(
        " `python bench.py` is a command that your project does not name as a benchmark: whether"
        " your project does the same is not known."
    )
    measured(bench, 0.8, series("PiMatmul"))
    advice = advised(bench, "")
    assert versions(advice)["fast"] == "1"
    assert advice.assessment.choices["fast"].indicators == ("PiMatmul",)


def test_commands_of_other_projects_do_not_affect_a_project_with_benchmarks() -> None:
    bench = Bench()
    measured(bench, 0.8, command())
    advice = advised(bench, BENCHMARKS.replace("bench.py", "other.py"))
    assert versions(advice)["fast"] == "2"
    assert (advice.assessment.claims, advice.assessment.choices) == ((), {})


def test_project_benchmark_counts_only_with_its_latest_files() -> None:
    bench = Bench()
    measured(bench, 0.8, command(files="0" * 64), age=30)
    measured(bench, 1.2, command(files="1" * 64), age=3)
    choice = advised(bench).assessment.choices["fast"]
    assert [it.parameters["files_sha256"] for it in choice.series] == ["1" * 64]


def test_equal_command_of_another_project_is_no_project_benchmark() -> None:
    mine, other = "0" * 64, "1" * 64
    bench = Bench()
    measured(bench, 0.8, command(files=mine), age=30)
    measured(bench, 1.2, command(files=other), age=3)
    advice = advised(bench, now=mine)
    choice = advice.assessment.choices["fast"]
    assert [it.parameters["files_sha256"] for it in choice.series] == [mine]
    assert versions(advice)["fast"] == "1"
    report = report_of(advice)
    assert report["result"]["parameters"]["benchmark_files"] == {"train": mine}
    assert check_offline(report, advice.snapshot, advice.evidence).problems == ()
    assert advised(bench, now="2" * 64).assessment.choices == {}


def test_versions_that_were_compared_are_not_among_those_named_as_not_compared() -> None:
    bench = Bench()
    for version, level in (("1", 0.5), ("4", 0.0)):
        bench.measure(bench.stack(f"fast=={version}"), jobs(level, 10), command())
    request = request_for("fast\n", RecommendationType.BEST)
    index: Index = {"fast": {str(version): {} for version in range(1, 7)}}
    advice = advise(request, snapshot_for(request, index), bench.evidence())
    assert "; 6 and 5, 3 and 2 were not compared here: " in summary_of(advice)
