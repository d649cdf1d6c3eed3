"""An advice is the same in every process: for each hash seed, number of threads and processor."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adviser.reports.documents import report_bytes, report_document, result_document
from adviser.reports.serialization import dataclass_to_json
from adviser.scoring.criteria import RecommendationType
from model.measurements.evidence import Evidence
from tests.effort import slow
from tests.factories.evidence import Bench, series
from tests.factories.requests import advice_for, known_for, request_for
from tests.factories.universes import Index

METADATA = {"document_id": "adviser-260101000000-00000000000000aa", "timings": {}}
VERSIONS = [f"1.{minor}" for minor in range(12)]
INDEX: Index = {
    "fast": {it: {"requires": ["rest"]} for it in VERSIONS},
    "rest": {"1.0": {}, "1.1": {}},
    "other": {"1.0": {}, "2.0": {}},
}
ADVICES = 2

#: Answers and checks each stored advice again, and prints what differs.
AGAIN = """
import sys
from pathlib import Path

import orjson

from adviser.advise import advise
from adviser.advice_request import StackRequest
from adviser.reports.checking import AdviceInputs, check_report
from adviser.reports.documents import ReleaseKnowledge, report_bytes
from adviser.reports.documents import premises_in, report_document, result_document
from adviser.reports.serialization import dataclass_from_json
from model.measurements.evidence import Evidence
from model.packages.snapshot import Snapshot

for folder in sorted(Path(sys.argv[1]).iterdir()):
    known = dataclass_from_json((folder / "known").read_bytes(), ReleaseKnowledge)
    request = dataclass_from_json((folder / "request").read_bytes(), StackRequest)
    snapshot = Snapshot.from_json((folder / "snapshot").read_bytes())
    evidence = Evidence.from_json((folder / "evidence").read_bytes())
    report = (folder / "report").read_bytes()
    document = orjson.loads(report)
    advice = advise(request, snapshot, evidence, threads=int(sys.argv[2]))
    result = result_document(advice, known)
    if report_bytes(report_document(result, document["metadata"])) != report:
        print(folder.name, "the replay differs")
    premises = premises_in(document["result"]["report"], request.locked)
    inputs = AdviceInputs(request, snapshot, evidence, known, premises)
    for problem in check_report(document, inputs):
        print(folder.name, problem)
"""


def noisy(seed: int) -> Evidence:
    """Two indicators on three hosts: every version of ``fast`` beside both versions of ``rest``."""
    draw, bench = np.random.default_rng(seed), Bench()
    for indicator in ("PiMatmul", "PiConv2D"):
        for rest in INDEX["rest"]:
            for version in VERSIONS:
                stack = bench.stack(f"fast=={version}", f"rest=={rest}", "other==1.0")
                for host in ("h1", "h2", "h3"):
                    rates = draw.normal(0.05 * draw.normal(), 0.01, 6)
                    bench.measure(stack, rates, series(indicator), host=host)
    return bench.evidence()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each advice: what it was made of, and its report."""
    root = tmp_path_factory.mktemp("advices")
    for seed in range(ADVICES):
        request = request_for("fast\nother\n", RecommendationType.PERFORMANCE, count=3)
        advice = advice_for(request, INDEX, noisy(seed))
        known = known_for(advice)
        parts = {
            "known": dataclass_to_json(known),
            "request": dataclass_to_json(request),
            "snapshot": advice.snapshot.to_json(),
            "evidence": advice.evidence.to_json(),
            "report": report_bytes(report_document(result_document(advice, known), METADATA)),
        }
        (root / str(seed)).mkdir()
        for name, data in parts.items():
            (root / str(seed) / name).write_bytes(data)
    return root


def problems_of(stored: Path, *, hash_seed: int, threads: int, simd: bool) -> str:
    """What a process with this hash seed and so many threads finds wrong."""
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        # Without these NumPy calculates as on an older processor.
        "NPY_DISABLE_CPU_FEATURES": "" if simd else " ".join(extensions.get("found", ())),
    }
    command = [sys.executable, "-c", AGAIN, str(stored), str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("hash_seed", [0, 1, 2, *slow(range(3, 20))])
def test_advice_report_does_not_depend_on_hash_seed_or_thread_count(
    stored: Path, hash_seed: int
) -> None:
    threads = (1, 2, 4)[hash_seed % 3]
    assert problems_of(stored, hash_seed=hash_seed, threads=threads, simd=True) == ""


def test_advice_report_does_not_depend_on_simd_instructions(stored: Path) -> None:
    assert problems_of(stored, hash_seed=0, threads=1, simd=False) == ""
