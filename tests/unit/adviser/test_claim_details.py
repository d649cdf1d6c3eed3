"""What a claim rests on adds up to the claim."""

import json
import math
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from adviser.claim_details import ClaimDetails, claim_details, details_document, sentences
from adviser.scoring.estimates import Method
from adviser.scoring.verdicts import ALPHA
from model.packages.native_libraries import CONTEXT
from tests.factories.evidence import (
    ELSEWHERE,
    GAIN,
    NOW,
    STEP,
    Bench,
    bundling,
    jobs,
    performance_about,
    series,
)

RUN_1, RUN_2 = (tuple(f"{run}:{turn}" for turn in range(8)) for run in "ab")


def explained(
    bench: Bench, baseline: tuple[str, ...] = ("fast==1", "rest==1")
) -> tuple[ClaimDetails, ...]:
    performance = performance_about(bench, baseline, ["fast==2"])
    return tuple(
        claim_details(bench.evidence(), claim, performance.comparisons, share)
        for claim, share in zip(performance.claims, performance.shares, strict=True)
    )


def turns(
    bench: Bench, *releases: str, level: float = 0.0, host: str = "h1", seed: int = 1,
    blocks: tuple[str, ...] = RUN_1, run: str | None = "night",
) -> None:  # fmt: skip
    rates = jobs(level, seed=seed)
    bench.measure(bench.stack(*releases), rates, host=host, blocks=blocks, begin=NOW, run=run)


def test_paired_differences_of_claim_details_average_to_the_claim() -> None:
    bench = Bench()
    turns(bench, "fast==1", "rest==1")
    turns(bench, "fast==2", "rest==1", level=GAIN, seed=2)
    (details,) = explained(bench)
    claim = details.claim
    assert claim.method is Method.PAIRED
    assert [pair.block for pair in details.pairs] == list(RUN_1)
    mean = float(np.mean([pair.d for pair in details.pairs]))
    assert math.isclose(100 * math.expm1(mean), claim.observed_pct)
    effect = details.effect
    assert math.isclose(effect.observed_pct, claim.observed_pct)
    assert math.isclose(effect.interval_low_pct, claim.interval_low_pct)
    assert math.isclose(effect.interval_high_pct, claim.interval_high_pct)
    for pair in details.pairs:
        assert math.isclose(math.log(pair.rate / pair.baseline_rate), pair.d)
    observed = sorted(one for job in details.jobs for one in job.observations)
    assert observed == list(claim.evidence)
    assert (details.share, details.comparisons) == (pytest.approx(ALPHA), 1)
    assert [(it.name, it.ours, it.theirs) for it in details.differences] == [("fast", "2", "1")]
    assert "All pairs are of one run of each stack" in " ".join(sentences(details))
    assert not details.bundled
    (claim,) = performance_about(bench, ("fast==1", "rest==1"), ["fast==2"]).claims
    told = claim_details(bundling(bench.evidence()), claim, 1, ALPHA)
    assert details_document(told)["bundled"] == {"fast": STEP}
    assert f"{STEP} ({CONTEXT})." in sentences(told)


def test_claim_details_show_effects_by_run_and_host() -> None:
    bench = Bench()
    levels = {("h1", RUN_1): 0.20, ("h1", RUN_2): 0.30, ("h2", RUN_1): 0.25}
    for seed, ((host, blocks), level) in enumerate(levels.items()):
        place = {"host": host, "blocks": blocks, "run": blocks[0]}
        turns(bench, "fast==1", "rest==1", seed=seed, **place)
        turns(bench, "fast==2", "rest==1", level=level, seed=seed + 9, **place)
    (details,) = explained(bench)
    assert details.claim.method is Method.POOLED
    own = sorted((it.hosts, round(it.effect.d, 6), it.jobs) for it in details.inspections)
    assert own == [(("h1",), 0.2, 8), (("h1",), 0.3, 8), (("h2",), 0.25, 8)]
    assert [(len(it.documents), len(it.baseline_documents)) for it in details.inspections] == [
        (1, 1)
    ] * 3
    by_host = {it.hosts: (it.jobs, round(it.effect.d, 6)) for it in details.hosts}
    assert by_host == {("h1",): (16, 0.25), ("h2",): (8, 0.25)}
    assert math.isclose(details.effect.observed_pct, details.claim.observed_pct)
    assert "mean over 2 hosts" in " ".join(sentences(details))


def test_claim_details_distinguish_pairs_of_two_hosts() -> None:
    """Three pairs on each host are estimated together, although both count their turns alike."""
    bench = Bench()
    for host, level in (("h1", 0.2), ("h2", 0.4)):
        for version, gain in (("1", 0.0), ("2", level)):
            rates = jobs(gain, 3, int(version))
            stack = bench.stack(f"fast=={version}", "rest==1")
            bench.measure(stack, rates, host=host, blocks=RUN_1, begin=NOW, run="night")
    bench.readings = [
        replace(it, document_id=it.stack, job_id=it.observation_id) for it in bench.readings
    ]
    (details,) = explained(bench)
    assert (details.claim.method, len(details.pairs)) == (Method.PAIRED, 6)
    own = sorted((it.hosts, it.jobs, round(it.effect.d, 6)) for it in details.inspections)
    assert own == [(("h1",), 3, 0.2), (("h2",), 3, 0.4)]


def test_claim_details_show_the_two_versions_in_other_stacks() -> None:
    bench = Bench()
    for version, level in (("1", 0.0), ("2", 0.3)):
        turns(bench, f"fast=={version}", "rest==1", level=level)
        turns(bench, f"fast=={version}", "rest==2", "more==1", level=level / 3)
        turns(bench, f"fast=={version}", "rest==3")
    turns(bench, "fast==1", "rest==4")
    details = next(it for it in explained(bench) if it.claim.package == "fast")
    contexts = [(it.differs, round(it.effect.d, 6)) for it in details.contexts]
    assert contexts == [(("rest",), 0.0), (("more", "rest"), 0.1)]
    assert "in 2 other contexts" in " ".join(sentences(details))


def test_claim_details_show_unpaired_jobs_by_run_and_excluded_jobs_by_stack() -> None:
    bench = Bench()
    here = series(hardware=ELSEWHERE)
    base, other = bench.stack("fast==1", "rest==1"), bench.stack("fast==2", "rest==1")
    for run in range(5):
        when = NOW + timedelta(days=run)
        level = 0.001 * run**2
        bench.measure(base, jobs(level, 2, run), here, run=f"{run}", begin=when)
        bench.measure(other, jobs(GAIN - level, 3, run), here, run=f"{run}", begin=when)
    bench.measure(other, [9.0], here, unstable="steal")
    bench.measure(base, [9.0, 9.0], here, host="h2")
    (details,) = explained(bench)
    assert (details.claim.method, details.pairs) == (Method.WELCH, ())
    runs = Counter((it.stack, it.document_id) for it in details.jobs)
    assert sorted((stack, jobs) for (stack, _), jobs in runs.items()) == sorted(
        [(base, 2)] * 5 + [(other, 3)] * 5
    )
    assert details.left_out == {base: {"other_host": 2}, other: {"steal": 1}}
    assert details.elsewhere_sd == 0.1
    assert math.isclose(details.effect.observed_pct, details.claim.observed_pct)
    assert details.effect.interval_low_pct > details.claim.interval_low_pct
    assert "on another hardware class than requested" in " ".join(sentences(details))
    unnamed = " ".join(sentences(details, hardware_named=False))
    assert "The advice is for no hardware class, so its standard error" in unnamed
    assert "another hardware" not in unnamed
    assert "other hardware" not in unnamed
    assert f" on {details.claim.hardware_label}" in unnamed


def test_claim_details_state_the_share_of_the_error_rate() -> None:
    bench = Bench()
    for indicator in ("PiMatmul", "PiConv2D"):
        how = series(indicator)
        for version, level in (("1", 0.0), ("2", GAIN)):
            bench.measure(bench.stack(f"fast=={version}", "rest==1"), jobs(level), how)
    few = series("PiImport")
    for version in "12":
        bench.measure(bench.stack(f"fast=={version}", "rest==1"), jobs(0.0, 3), few)
    shares = {it.claim.indicator: it.share for it in explained(bench)}
    half = pytest.approx(ALPHA / 2)
    assert shares == {"PiMatmul": half, "PiConv2D": half, "PiImport": 0.0}


@pytest.mark.parametrize("host", ["h1", "h2"])
def test_claim_details_show_unknown_values_as_null(host: str) -> None:
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), [0.0])
    bench.measure(bench.stack("fast==2", "rest==1"), [0.1], host=host)
    (details,) = explained(bench)
    document = json.loads(json.dumps(details_document(details), allow_nan=False))
    effect = document["effect"]
    assert (effect["standard_error"], effect["interval_low_pct"]) == (None, None)
    assert (effect["d"] is None) == (host == "h2")
    assert "was not tested" in " ".join(document["sentences"])
