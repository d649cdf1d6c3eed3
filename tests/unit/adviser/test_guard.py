"""Two locks compared: what is settled, and what is not."""

from __future__ import annotations

from dataclasses import replace

from adviser.explain import Change
from adviser.guard import Guarded, guard
from adviser.scoring.verdicts import Verdict
from common.environments import Environment
from graph.candidates import KnownVulnerability
from graph.evidence import Evidence
from tests.factories.asked import NOTHING
from tests.factories.evidence import ELSEWHERE, HERE, Bench
from tests.factories.universes import ENVIRONMENT, snapshot_of
from tests.unit.adviser.scoring.test_performance import GAIN, jobs, measured

INDEX = {"fast": {"2": {}, "1": {}}, "rest": {"1": {}}}
ONE, TWO = {"fast": "1", "rest": "1"}, {"fast": "2", "rest": "1"}


def guarded(
    old: dict[str, str],
    new: dict[str, str],
    evidence: Evidence,
    where: Environment = ENVIRONMENT,
    hardware: str = HERE,
) -> Guarded:
    return guard(old, new, snapshot_of(INDEX, ["fast", "rest"]), evidence, where, hardware)


def test_a_settled_loss_speaks_against_an_upgrade() -> None:
    told = guarded(TWO, ONE, measured().evidence())
    assert told.harmful
    (claim,) = told.slower
    assert (claim.package, claim.verdict) == ("fast", Verdict.SLOWER)
    assert told.changes == (Change("fast", "1", "2"),)


def test_a_settled_gain_does_not() -> None:
    told = guarded(ONE, TWO, measured().evidence())
    assert [it.verdict for it in told.claims] == [Verdict.FASTER]
    assert not told.harmful


def test_what_is_not_settled_is_only_named() -> None:
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), jobs(count=3))
    bench.measure(bench.stack("fast==2", "rest==1"), jobs(-GAIN, count=3))
    told = guarded(ONE, TWO, bench.evidence())
    assert (told.claims, told.unsettled, told.harmful) == ((), ("fast",), False)


def test_other_hardware_settles_nothing_here() -> None:
    told = guarded(TWO, ONE, measured().evidence(), hardware=ELSEWHERE)
    assert (told.claims, told.harmful) == ((), False)


def test_a_vulnerability_that_comes_speaks_against_one_that_goes_does_not() -> None:
    found = snapshot_of(INDEX, ["fast", "rest"])
    newer, older = found.packages["fast"]
    bad = replace(newer, vulnerabilities=(KnownVulnerability("CVE-1", "high"),))
    snapshot = replace(found, packages={**found.packages, "fast": (bad, older)})
    comes = guard(ONE, TWO, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert [(it.id, it.version) for it in comes.introduced] == [("CVE-1", "2")]
    assert comes.harmful
    goes = guard(TWO, ONE, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert [it.id for it in goes.removed] == ["CVE-1"]
    assert not goes.harmful


def test_a_new_version_that_nobody_knows_is_named() -> None:
    told = guarded(ONE, {"fast": "9", "rest": "1"}, NOTHING)
    assert told.unknown == {"fast": "nothing is known of this version"}
