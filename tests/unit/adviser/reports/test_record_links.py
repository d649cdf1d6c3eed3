"""What an advice is tied to in the graph."""

from adviser.advise import advise
from adviser.reports.documents import ReleaseKnowledge, result_document
from adviser.reports.record_links import links_of, recorded_claim
from adviser.scoring.criteria import RecommendationType
from model.measurements.inspection import Stack
from model.packages.identity import package_version
from tests.factories.evidence import HERE, Bench
from tests.factories.requests import request_for, snapshot_for

VERSIONS = ("1", "2", "3", "4")
INDEX = {"fast": {version: {} for version in VERSIONS}}
FILES = {"requirements.in": "fast>=1\n", "requirements.txt": "fast==2\n"}


def stack(version: str) -> str:
    return Stack.of((package_version("fast", version),)).digest


def measured(jobs: int = 20) -> Bench:
    """Of four versions the third is a third slower than the others."""
    bench = Bench()
    for version in VERSIONS:
        level = -0.4 if version == "3" else 0.0
        rates = [level + 0.001 * (-1) ** number for number in range(jobs)]
        bench.measure(bench.stack(f"fast=={version}"), rates)
    return bench


def test_recorded_advice_links_all_its_claims() -> None:
    request = request_for(files=FILES, kind=RecommendationType.PERFORMANCE)
    advice = advise(request, snapshot_for(request, INDEX), measured().evidence())
    links = links_of(advice, result_document(advice, ReleaseKnowledge()))
    assert [it.stack.digest for it in links.stacks] == [stack("4")]
    found = {it.stack_digest: it.verdict for it in links.claims}
    assert found == {stack("1"): "equivalent", stack("3"): "slower", stack("4"): "equivalent"}
    assert {it.baseline_digest for it in links.claims} == {stack("2")}
    assert (links.request.requirements, links.request.packages) == ({"fast>=1"}, {"fast"})
    assert (links.request.hardware_digest, links.request.stack_count) == (HERE, 1)


def test_claims_without_the_baseline_are_recorded_only_if_settled() -> None:
    request = request_for(files=FILES)
    claims = advise(request, snapshot_for(request, INDEX), measured().evidence()).assessment.claims
    version = {stack(it): it for it in VERSIONS}
    compared = [
        (version[it.baseline_digest], version[it.stack_digest], it.verdict)
        for it in map(recorded_claim, claims)
    ]
    assert compared == [
        ("2", "1", "equivalent"), ("2", "3", "slower"), ("2", "4", "equivalent"),
        ("3", "4", "faster"), ("1", "4", "equivalent"),
    ]  # fmt: skip


def test_claim_identifier_follows_from_its_content() -> None:
    request = request_for(files=FILES)
    snapshot = snapshot_for(request, INDEX)
    once, again, more = (
        [recorded_claim(it) for it in advise(request, snapshot, bench.evidence()).assessment.claims]
        for bench in (measured(), measured(), measured(21))
    )
    assert once == again
    assert {it.claim_id for it in once}.isdisjoint(it.claim_id for it in more)
    assert len({it.claim_id for it in once}) == len(once) > 0


def test_infinite_numbers_of_a_claim_are_recorded_as_null() -> None:
    request = request_for(files=FILES)
    advice = advise(request, snapshot_for(request, INDEX), measured(1).evidence())
    (claim, *_) = map(recorded_claim, advice.assessment.claims)
    assert (claim.interval_low_pct, claim.interval_high_pct, claim.effect_pct) == (None, None, None)
    assert claim.verdict == "undetermined"
