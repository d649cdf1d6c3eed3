"""Advice that would do harm is not given, and harm that cannot be avoided is told first."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from adviser.advise import Advice, advise
from adviser.guard import GuardOutcome, guard
from adviser.reports.summary import summary_of
from adviser.resolver.results import Resolution, ResolutionStatus
from adviser.scoring.criteria import RecommendationType
from tests.factories.evidence import Bench, at_levels, jobs, series
from tests.factories.requests import request_for, snapshot_for
from tests.factories.universes import Index, with_vulnerabilities

INDEX: Index = {"fast": {"3": {}, "2": {}, "1": {}}, "web": {"2": {}, "1": {}}}
KINDS = [RecommendationType.BEST, RecommendationType.LATEST, RecommendationType.STABLE]


measured = partial(at_levels, "fast", "web==1")


def advised(
    bench: Bench,
    requirements: str,
    vulnerable: Mapping[str, str] | None = None,
    kind: RecommendationType = RecommendationType.BEST,
    **options: Any,
) -> Advice:
    """The advice for a project that has ``fast`` 1 and ``web`` 1.

    :param vulnerable: identifier of a vulnerability by release, such as ``web==2``
    """
    files = {"requirements.in": requirements, "requirements.txt": "fast==1\nweb==1\n"}
    request = request_for(kind=kind, files=files, **options)
    snapshot = with_vulnerabilities(snapshot_for(request, INDEX), vulnerable or {})
    return advise(request, snapshot, bench.evidence())


def outcomes(advice: Advice) -> set[GuardOutcome]:
    request = advice.request
    return {
        guard(
            request.locked or {}, stack.versions(), advice.snapshot, advice.evidence,
            request.environment, request.hardware,
        ).outcome
        for stack in advice.resolution.stacks
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_best_of_several_advised_stacks_does_no_harm(kind: RecommendationType) -> None:
    bench = measured(v1=0.0, v2=-0.5, v3=-0.5)
    advice = advised(bench, "fast\nweb\n", {"web==2": "V-1"}, kind, count=3)
    assert advice.best.versions() == {"fast": "1", "web": "1"}
    assert GuardOutcome.HARM not in outcomes(advice)


@pytest.mark.parametrize("kind", KINDS)
def test_unavoidable_slowdown_does_not_justify_a_vulnerability(kind: RecommendationType) -> None:
    bench = measured(v1=0.0, v2=-0.5, v3=-0.5)
    advice = advised(bench, "fast>=2\nweb\n", {"web==2": "V-1"}, kind)
    assert advice.best.versions() == {"fast": "3", "web": "1"}
    first = summary_of(advice)
    assert first.startswith("Every stack without other harm that meets the request is slower: fast")


def test_unavoidable_vulnerability_is_reported_first() -> None:
    advice = advised(measured(v1=0.0), "fast\nweb>=2\n", {"web==2": "V-1"})
    assert advice.best.versions()["web"] == "2"
    assert advice.premises.harm_accepted
    assert "does harm, compared with your lock; this is the best of them: web 2: it has V-1" in (
        summary_of(advice)
    )


def test_summary_mentions_vulnerabilities_before_calling_a_lock_the_best() -> None:
    pinned = "fast==1\nweb==1\n"
    advice = advised(Bench(), pinned, {"web==1": "V-1", "fast==1": "V-2"})
    assert summary_of(advice) == (
        "2 known vulnerabilities affect these versions: fast 1 (V-2), web 1 (V-1)."
        " No stack that meets your requirements is better."
    )
    accepted = advised(
        Bench(), pinned, {"web==1": "V-1"}, allowed_vulnerabilities=frozenset({"V-1"})
    )
    assert summary_of(accepted) == "Keep your versions: no stack is better."


def test_summary_without_hardware_says_that_no_measurement_counts() -> None:
    request = request_for("web\n", RecommendationType.PERFORMANCE, hardware=None)
    advice = advise(request, snapshot_for(request, INDEX), measured(v1=0.0).evidence())
    assert summary_of(advice) == (
        "Use these versions: no hardware was named, so no measurement counts."
    )


def test_vulnerability_already_in_the_lock_is_not_counted_as_harm() -> None:
    advice = advised(measured(v1=0.0), "fast\nweb\n", {"web==1": "V-1", "web==2": "V-1"})
    assert not advice.premises.harm_accepted
    assert GuardOutcome.HARM not in outcomes(advice)


def test_harm_is_not_accepted_as_unavoidable_after_an_unfinished_search() -> None:
    calls = []

    def at_its_limit(*_: object, **__: object) -> Resolution:
        calls.append(1)
        return Resolution(ResolutionStatus.UNKNOWN)

    files = {"requirements.in": "fast\nweb\n", "requirements.txt": "fast==1\nweb==1\n"}
    request = request_for(files=files)
    bench = measured(v1=0.0, v2=math.log(0.5))
    advice = advise(request, snapshot_for(request, INDEX), bench.evidence(), resolver=at_its_limit)
    assert (advice.best, advice.premises.harm_accepted, len(calls)) == (None, False, 1)


def test_summary_names_disagreeing_hosts_and_another_python() -> None:
    bench, elsewhere = Bench(), Bench()
    for version, gain in (("1", 0.0), ("2", 0.12)):
        stack = bench.stack(f"fast=={version}", "web==1")
        bench.measure(stack, jobs(gain, 40))
        bench.measure(stack, jobs(-gain, 40), host="h2")
        stack = elsewhere.stack(f"fast=={version}", "web==1")
        elsewhere.measure(stack, jobs(-5 * gain), series(python_version="3.9"))
    assert "about 2 against 1, the 2 hosts disagree, from -11" in summary_of(
        advised(bench, "fast<3\nweb<2\n")
    )
    assert "on another Python (3.9) (95 % interval" in summary_of(
        advised(elsewhere, "fast<3\nweb<2\n")
    )


def test_yanked_locked_version_is_kept_if_every_other_version_does_harm() -> None:
    files = {"requirements.in": "fast\nweb<2\n", "requirements.txt": "fast==2\nweb==1\n"}
    request = request_for(files=files)
    index: Index = {**INDEX, "fast": {"3": {}, "2": {"yanked": True}, "1": {}}}
    bench = measured(v1=0.0, v2=0.3, v3=0.0)
    advice = advise(request, snapshot_for(request, index), bench.evidence())
    assert advice.best is not None
    assert advice.best.versions() == {"fast": "2", "web": "1"}
    assert summary_of(advice).startswith("Keep your versions: every other stack that was tried")
