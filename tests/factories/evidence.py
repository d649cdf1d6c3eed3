"""Evidence made in memory: stacks that differ in chosen packages, and jobs with a chosen noise."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from adviser.scoring.assessment_types import Claim
from adviser.scoring.performance import Performance, performance_of
from adviser.scoring.stack_pairs import MeasuredStacks, name_of
from adviser.scoring.target import Target
from adviser.scoring.version_choice import PackageChoice, VersionChoices
from model.json_documents import digest
from model.measurements.evidence import Evidence, Reading, Series, VulnerabilityDetails
from model.measurements.units import Unit
from model.packages.identity import Purl, package_version
from model.packages.native_libraries import BundledLibrary
from tests.factories.universes import snapshot_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
#: Hardware classes of these tests.
HERE, ELSEWHERE = "sha256:" + "a" * 64, "sha256:" + "b" * 64
#: Where the stacks of these tests are to run.
PLACE = Target(HERE, "3.11")
#: A gain of 30 %, natural log.
GAIN = math.log(1.3)


def jobs(level: float = 0.0, count: int = 8, seed: int = 1) -> list[float]:
    """Log rates about a level, their mean exactly it, with a spread of 1 %."""
    steps = np.linspace(-1, 1, count)
    return list(level + 0.01 * np.random.default_rng(seed).permutation(steps))


def purl(release: str) -> Purl:
    """``numpy==1.26.4`` as a Package URL."""
    name, _, version = release.partition("==")
    return package_version(name, version).purl


def series(indicator: str = "PiMatmul", hardware: str = HERE, **more: Any) -> Series:
    """A series whose comparison key says what it is made of."""
    parameters = more.pop("parameters", {"size": 512})
    fields = {
        "script_sha256": "1f" * 32, "device": "cpu", "unit": Unit.FLOP_PER_SECOND,
        "python_version": "3.11", **more,
    }  # fmt: skip
    key = digest([indicator, parameters, hardware, fields["device"]])
    return Series(
        comparison_key=key, indicator=indicator, parameters=parameters, hardware_digest=hardware,
        **fields,
    )  # fmt: skip


@dataclass
class Bench:
    """Collects readings, stack by stack."""

    series: list[Series] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    stacks: dict[str, tuple[Purl, ...]] = field(default_factory=dict)

    def stack(self, *releases: str) -> str:
        """The digest of a stack of ``name==version``."""
        purls = tuple(sorted(map(purl, releases)))
        name = digest(list(purls))
        self.stacks[name] = purls
        return name

    def measure(
        self,
        stack: str,
        rates: Iterable[float],
        how: Series | None = None,
        *,
        host: str | None = "h1",
        blocks: Sequence[str] | None = None,
        begin: datetime | None = None,
        unstable: str | None = None,
        run: str | None = None,
    ) -> None:
        """A job for each log rate, an hour after the one before.

        :param run: the jobs are of this one inspection; without it each is one by itself, so that
            they have nothing in common
        """
        how = how or series()
        if how not in self.series:
            self.series.append(how)
        for n, rate in enumerate(rates):
            alone = [n] if run is None else []
            place = [stack, how.comparison_key, how.python_version, host, run, *alone]
            document = digest(place)
            self.readings.append(
                Reading(
                    observation_id=digest([document, n]),
                    series=self.series.index(how),
                    stack=stack,
                    document_id=document,
                    job_id=f"{document}:{n}",
                    rate=float(np.exp(rate)),
                    unstable_reason=unstable,
                    host=host,
                    block=None if blocks is None else blocks[n],
                    seen_at=None if begin is None else begin + timedelta(hours=n),
                )
            )

    def evidence(self, **more: Any) -> Evidence:
        """All of it, frozen."""
        labels = {HERE: "this class", ELSEWHERE: "another class"}
        fields: dict[str, Any] = {
            "as_of": NOW,
            "hardware": labels,
            "sources": {"pypi": NOW},
            **more,
        }
        return Evidence(
            series=tuple(self.series), readings=tuple(self.readings), stacks=dict(self.stacks),
            **fields,
        )  # fmt: skip


def at_levels(name: str, beside: str, **levels: float) -> Bench:
    """Ten jobs of each version of a package beside a release; ``v2=0.3`` is a log speed."""
    bench = Bench()
    for version, level in levels.items():
        bench.measure(bench.stack(f"{name}=={version[1:]}", beside), jobs(level, 10))
    return bench


def measured(
    how: Series | None = None, *, changed: Mapping[str, Sequence[float]] | None = None
) -> Bench:
    """``fast`` 1 and 2 beside ``rest`` 1, the second 30 % faster."""
    bench = Bench()
    arms = changed or {"fast==1 rest==1": jobs(), "fast==2 rest==1": jobs(GAIN)}
    for releases, rates in arms.items():
        bench.measure(bench.stack(*releases.split()), rates, how)
    return bench


def bundling(evidence: Evidence) -> Evidence:
    """The same, with what is known of the wheels of :func:`measured`."""
    versions = {"fast==1": "0.3.28", "fast==2": "0.3.29"}
    return replace(
        evidence,
        bundled={it: (BundledLibrary("OpenBLAS", at, "libs"),) for it, at in versions.items()},
    )


#: What a claim about these versions is told with.
STEP = "fast 2 bundles OpenBLAS 0.3.29 instead of 0.3.28"


def versions_by_name(releases: Iterable[str]) -> dict[str, list[Purl]]:
    """``fast==1`` and the like as Package URLs, by name, sorted."""
    versions: dict[str, list[Purl]] = {}
    for release in sorted(set(releases)):
        versions.setdefault(name_of(purl(release)), []).append(purl(release))
    return versions


def performance_about(
    bench: Bench, baseline: Sequence[str], candidates: Collection[str], place: Target = PLACE
) -> Performance:
    """What measurements say of some versions next to a baseline; both may be chosen."""
    evidence = bench.evidence()
    base = {name_of(purl(release)): purl(release) for release in baseline}
    versions = versions_by_name([*baseline, *candidates])
    measured = MeasuredStacks(snapshot_of({}, []), evidence)
    return performance_of(evidence, measured, base, versions, place)


def claims_about(
    bench: Bench, baseline: Sequence[str], candidates: Collection[str], place: Target = PLACE
) -> list[Claim]:
    """The claims of :func:`performance_about`."""
    return list(performance_about(bench, baseline, candidates, place).claims)


def choice_about(
    bench: Bench, versions: Collection[str], choosable: Collection[str] | None = None
) -> PackageChoice | None:
    """The choice among versions of one package.

    :param choosable: versions that the request can have; all by default
    """
    measured = MeasuredStacks(snapshot_of({}, []), bench.evidence())
    usable = frozenset(map(purl, versions if choosable is None else choosable))
    return VersionChoices(measured, PLACE).of_package(map(purl, versions), usable)


def harms(**aliases: Iterable[str]) -> Mapping[str, VulnerabilityDetails]:
    """Vulnerabilities by identifier, ``_`` for ``-``, with their aliases."""
    return {
        name.replace("_", "-"): VulnerabilityDetails(tuple(sorted(it)), f"{name} is bad")
        for name, it in aliases.items()
    }


def simulated(
    draw: np.random.Generator,
    arms: int,
    jobs: int,
    noise: float,
    gains: Sequence[float] = (),
    *,
    night: float = 0.0,
    runs: int = 1,
    in_turns: bool = False,
) -> tuple[dict[str, dict[str, dict[str, Any]]], Evidence]:
    """An index with one package in as many versions, and a stack with jobs of each.

    :param gains: natural logs: how much faster than the others the first of the older
        versions truly are
    :param night: how much the means of runs differ by themselves, natural log; 0 for jobs that
        have nothing in common
    :param runs: of each stack, with as many jobs each
    :param in_turns: whether the stacks of a run shared its night, job by job
    :returns: the index, the newest version being the baseline, and the evidence
    """
    index: dict[str, dict[str, dict[str, Any]]] = {"fast": {}, "rest": {"1.0": {}}}
    bench = Bench()
    rates = draw.normal(0.0, noise, (arms, runs, jobs))
    rates[1 : 1 + len(gains)] += np.asarray(gains)[:, None, None] if gains else 0.0
    rates += draw.normal(0.0, night, (1 if in_turns else arms, runs, 1))
    for number, arm in enumerate(rates):
        version = f"1.{arms - number}"
        index["fast"][version] = {"requires": ["rest"], "uploaded_at": "2024-01-01T00:00:00+00:00"}
        stack = bench.stack(f"fast=={version}", "rest==1.0")
        for run, several in enumerate(arm):
            blocks = [f"{run}:{n}" for n in range(jobs)] if in_turns else None
            alone = not night and runs == 1
            bench.measure(stack, several, blocks=blocks, run=None if alone else str(run))
    return index, bench.evidence()
