"""A hundred pieces of advice, answered again from their stored form, are the same bytes."""

import json
import random

import pytest

from adviser.advice_request import StackRequest
from adviser.advise import advise
from adviser.reports.checking import AdviceInputs, check_report
from adviser.reports.documents import (
    ReleaseKnowledge,
    report_bytes,
    report_document,
    result_document,
)
from adviser.reports.serialization import dataclass_from_json, dataclass_to_json
from adviser.resolver.worker import ResolverWorker
from adviser.scoring.criteria import RecommendationType
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency
from model.packages.snapshot import Snapshot
from tests.factories.evidence import Bench, jobs
from tests.factories.requests import MAIN, known_for, request_for, snapshot_for
from tests.factories.universes import Index

METADATA = {"document_id": "adviser-260101000000-00000000000000aa", "timings": {}}


def drawn_index(draw: random.Random) -> Index:
    """Six packages in a few versions that require later ones."""
    names = [f"p{number}" for number in range(6)]
    found: Index = {
        name: {
            f"{major}.{minor}": {
                "requires": [
                    f"{other}{draw.choice(['', '>=1', '<2', '>=1.1', '!=1.0', '==2.*'])}"
                    for other in draw.sample(names[place + 1 :], min(2, 5 - place))
                    if draw.random() < 0.7
                ],
                "yanked": draw.random() < 0.1,
                "uploaded_at": f"202{draw.randint(0, 5)}-0{draw.randint(1, 9)}-01T00:00:00Z",
            }
            for major in (1, 2)
            for minor in range(draw.randint(1, 3))
        }
        for place, name in enumerate(names)
    }
    return found


def drawn(seed: int) -> tuple[StackRequest, Snapshot, Evidence]:
    """A request, its snapshot, and measurements of two stacks that differ in one package."""
    draw = random.Random(seed)
    index = drawn_index(draw)
    request = request_for(
        "p0\np1\n" + draw.choice(["", "p2<2\n", "p3==2.*\n"]),
        draw.choice(list(RecommendationType)),
        count=draw.randint(1, 4),
        indexes=(MAIN,),
        labels={"seed": str(seed)},
        prereleases=frozenset(draw.sample(["p1", "p2", "p3"], 2)),
        exclusions=(Dependency("p4", draw.choice(["==1.0", "<1"])),),
    )
    bench = Bench()
    rest = [f"{name}=={min(index[name])}" for name in ("p1", "p2")]
    for number, version in enumerate(sorted(index["p0"])):
        bench.measure(bench.stack(f"p0=={version}", *rest), jobs(0.2 * number, seed=seed))
    return request, snapshot_for(request, index), bench.evidence()


@pytest.fixture(scope="module")
def answered() -> list[tuple[AdviceInputs, bytes]]:
    """What each advice was made of, and its report, as this process has it."""
    found = []
    for request, snapshot, evidence in map(drawn, range(100)):
        advice = advise(request, snapshot, evidence)
        known = known_for(advice)
        report = report_bytes(report_document(result_document(advice, known), METADATA))
        found.append((AdviceInputs(request, snapshot, evidence, known, advice.premises), report))
    return found


def test_replayed_advice_is_equal_in_another_process_and_thread_count(
    answered: list[tuple[AdviceInputs, bytes]],
) -> None:
    statuses = set()
    with ResolverWorker() as worker:
        for inputs, report in answered:
            advice = advise(
                dataclass_from_json(dataclass_to_json(inputs.request), StackRequest),
                Snapshot.from_json(inputs.snapshot.to_json()),
                Evidence.from_json(inputs.evidence.to_json()),
                resolver=worker.resolve,
                threads=2,
            )
            statuses.add(advice.resolution.status.value)
            known = dataclass_from_json(dataclass_to_json(inputs.known), ReleaseKnowledge)
            result = result_document(advice, known)
            assert report_bytes(report_document(result, METADATA)) == report
    assert statuses == {"optimal", "infeasible"}


def test_every_advice_report_is_found_correct(answered: list[tuple[AdviceInputs, bytes]]) -> None:
    for inputs, report in answered:
        assert check_report(json.loads(report), inputs) == []
