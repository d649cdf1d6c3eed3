"""Honesty: false claims and found gains of simulated answers, by design and by rule.

Each row is a design, each column a rule that judges the very same data: a paired t-test at 5 % for
each comparison, the shipped rule without borrowing from other stacks, and the shipped rule. Truth
is known, so every claim is right or false. At the end, sites invent measurements, and what own jobs
say is compared with what they say alone.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel

from adviser.scoring.comparisons import Comparison, ComparisonGroup, compare_all
from adviser.scoring.estimates import UNKNOWN_SERIES
from adviser.scoring.histories import History, MeasuredJob, PackedSeries
from adviser.scoring.performance import performance_of
from adviser.scoring.samples import JobPlace
from adviser.scoring.stack_pairs import MeasuredStacks
from adviser.scoring.verdicts import Verdict
from model.measurements.evidence import Evidence, EvidencePack
from tests.factories.evidence import PLACE, Bench, purl, series
from tests.factories.universes import snapshot_of

ANSWERS, SEED = 300, 2026
#: Standard deviation of what all jobs of a turn share, natural log, a step a turn.
DRIFT = 0.02

Rates = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...], float], Rates]


def _normal(draw: np.random.Generator, shape: tuple[int, ...], sd: float) -> Rates:
    return draw.normal(0, sd, shape)


def _heavy(draw: np.random.Generator, shape: tuple[int, ...], sd: float) -> Rates:
    return draw.standard_t(3, shape) * sd / math.sqrt(3)


def _bimodal(draw: np.random.Generator, shape: tuple[int, ...], sd: float) -> Rates:
    """One job in five is slow, by about two and a half standard deviations."""
    raw = np.where(draw.random(shape) < 0.2, -1.0, 0.0) + draw.normal(0, 0.15, shape)
    return raw * sd / math.sqrt(0.16 + 0.0225)


@dataclass(frozen=True)
class Design:
    """How the jobs of one answer are drawn.

    :param jobs: turns on each host
    :param sd: of jobs of one turn, natural log
    :param gain: true gain of the first candidate
    :param baseline_jobs: jobs of the baseline a turn
    :param groups: independent groups in one answer
    :param factors: by place of a stack, the baseline being 0, how much more its jobs vary
    :param missing: by place of a stack, how many of its turns are lost
    :param interaction: standard deviation between hosts of the last candidate's own effect
    :param nights: batches, with as many turns each
    :param between: standard deviation of each stack's own effect between nights
    :param correlation: of consecutive jobs of a stack in one night
    :param tick: step of the clock as a share of the time of a repetition; it rounds, unrecorded
    :param step: how much faster each stack is than the one before, natural log
    :param packed: whether the groups are series of a pack, and the nights its sessions
    :param judged: number of groups that the answer is about; ``None`` for all
    """

    name: str
    candidates: int
    jobs: int
    sd: float
    gain: float = 0.0
    baseline_jobs: int = 1
    hosts: int = 1
    groups: int = 1
    noise: Noise = _normal
    factors: Mapping[int, float] = field(default_factory=dict)
    missing: Mapping[int, int] = field(default_factory=dict)
    interaction: float = 0.0
    equal_hosts: bool = False
    nights: int = 1
    between: float = 0.0
    correlation: float = 0.0
    tick: float = 0.0
    step: float = 0.0
    packed: bool = False
    judged: int | None = None

    def histories(self, draw: np.random.Generator) -> list[History]:
        """The jobs of one answer, group by group."""
        packed = PackedSeries(EvidencePack("pack", "pack")) if self.packed else None
        return [self._history(draw, packed) for _ in range(self.groups)][: self.judged]

    def _history(self, draw: np.random.Generator, packed: PackedSeries | None = None) -> History:
        jobs: dict[str, list[MeasuredJob]] = {_stack(n): [] for n in range(self.candidates + 1)}
        first: dict[int, Rates] = {}
        for host in range(self.hosts):
            turns = np.cumsum(draw.normal(0, DRIFT, self.nights * self.jobs))
            own = draw.normal(0, self.interaction) if self.interaction else 0.0
            for n, stack in enumerate(jobs):
                copies = 1 if n else self.baseline_jobs
                if host == 0 or not self.equal_hosts:
                    noise = self._noise(draw, copies)
                    first[n] = noise * self.factors.get(n, 1.0)
                rates = first[n] + turns[:, None]
                rates += math.log1p(self.gain) if n == 1 else 0.0
                rates += own if n == self.candidates else 0.0
                rates = _rounded(rates + n * self.step, self.tick) if self.tick else rates
                kept = len(turns) - self.missing.get(n, 0)
                for turn in range(kept):
                    for copy in range(copies):
                        run = f"{n}:{host}:{turn // self.jobs}"
                        place = JobPlace(f"host {host}", f"{host}:{turn}", run)
                        name = f"{host}:{turn:04}:{copy}"
                        jobs[stack].append(
                            MeasuredJob(name, float(rates[turn, copy]), place, None, ())
                        )
        known = {key: tuple(value) for key, value in jobs.items()}
        history = History(series(), known, {}, {}, packed)
        if packed is not None:
            packed.histories.append(history)
        return history

    def _noise(self, draw: np.random.Generator, copies: int) -> Rates:
        """The noise of one stack: jobs that follow each other in a night, and the night itself."""
        shape = self.nights, self.jobs, copies
        noise = self.noise(draw, shape, self.sd)
        for turn in range(1, self.jobs if self.correlation else 0):
            fresh = math.sqrt(1 - self.correlation**2) * noise[:, turn]
            noise[:, turn] = self.correlation * noise[:, turn - 1] + fresh
        if self.between:
            noise += draw.normal(0, self.between, (self.nights, 1, 1))
        return noise.reshape(-1, copies)


def _rounded(log_rates: Rates, tick: float) -> Rates:
    """Log rates as a clock measures them that rounds times to ticks."""
    return -np.log(np.maximum(1, np.round(np.exp(-log_rates) / tick)) * tick)


def _stack(number: int) -> str:
    return f"stack {number:03}"


def shipped(histories: Sequence[History], *, alone: bool = False) -> list[Comparison]:
    """The comparisons of one answer by the rules of the product.

    :param alone: without what other stacks of a series tell
    """
    contests = []
    for history in histories:
        base, *others = (history.sample(stack) for stack in history.jobs)
        spread = UNKNOWN_SERIES if alone else history.spread
        contests.append(ComparisonGroup(base, others, history.identical, spread))
    return [comparison for group in compare_all(contests) for comparison in group]


def _alone(histories: Sequence[History]) -> list[Comparison]:
    return shipped(histories, alone=True)


def _each_by_itself(histories: Sequence[History]) -> list[str]:
    """``faster`` or ``slower`` wherever a paired t-test has p < 0.05."""
    verdicts = []
    for history in histories:
        base, *others = (_by_turn(jobs) for jobs in history.jobs.values())
        for other in others:
            turns = sorted(base.keys() & other.keys())
            ours, theirs = ([jobs[turn] for turn in turns] for jobs in (other, base))
            test = ttest_rel(ours, theirs)
            faster = "faster" if test.statistic > 0 else "slower"
            verdicts.append(faster if test.pvalue < 0.05 else "undetermined")
    return verdicts


def _by_turn(jobs: Sequence[MeasuredJob]) -> dict[str, float]:
    turns: dict[str, list[float]] = {}
    for it in jobs:
        turns.setdefault(it.place.block or "", []).append(it.log_rate)
    return {turn: math.fsum(rates) / len(rates) for turn, rates in turns.items()}


def _verdicts(comparisons: Sequence[Comparison]) -> list[str]:
    return [it.verdict.value for it in comparisons]


RULES: tuple[tuple[str, Callable[[Sequence[History]], list[str]]], ...] = (
    ("t-test each", _each_by_itself),
    ("own variances", lambda them: _verdicts(_alone(them))),
    ("shipped", lambda them: _verdicts(shipped(them))),
)


def designs() -> Iterator[Design]:
    """All designs of the table."""
    for candidates in (1, 5, 20):
        for jobs, sd in ((5, 0.03), (5, 0.05), (10, 0.05), (5, 0.15), (10, 0.15)):
            yield Design(f"identical, k={candidates}", candidates, jobs, sd)
    yield Design("identical, 20 groups of 5", 5, 5, 0.05, groups=20)
    yield Design("identical, 20 groups of 5", 5, 5, 0.15, groups=20)
    for name, noise in (("heavy tails", _heavy), ("bimodal", _bimodal)):
        for jobs, sd in ((5, 0.05), (10, 0.05), (10, 0.15)):
            yield Design(f"identical, {name}, k=20", 20, jobs, sd, noise=noise)
    equal = Design("identical", 20, 10, 0.05, baseline_jobs=5)
    varied = {n: 2.5 ** ((n - 10) / 10) for n in range(21)}
    for unequal in (
        replace(equal, name="identical, one stack varies 3x", factors={20: 3.0}),
        replace(equal, name="identical, baseline varies 3x", factors={0: 3.0}),
        replace(equal, name="identical, stacks vary 0.4x to 2.5x", factors=varied),
        replace(equal, name="identical, half of the stacks lack 4 turns",
                missing=dict.fromkeys(range(1, 11), 4)),
    ):  # fmt: skip
        yield unequal
        yield replace(unequal, sd=0.15)
    for hosts in (2, 3, 4):
        yield Design(f"identical, {hosts} hosts, k=1", 1, 5, 0.05, hosts=hosts)
        yield Design(f"identical, {hosts} hosts, k=20", 20, 5, 0.05, hosts=hosts)
    for candidates, jobs, extra in ((1, 10, 1), (5, 10, 3), (20, 5, 1), (20, 10, 1), (20, 10, 5)):
        name = f"gain 10 %, k={candidates}, {extra} baseline jobs a turn"
        yield Design(name, candidates, jobs, 0.05, 0.10, baseline_jobs=extra)
    for hosts in (1, 2, 3, 4):
        name = f"gain 10 %, k=20, {hosts} equal hosts"
        yield Design(name, 20, 10, 0.02, 0.10, hosts=hosts, equal_hosts=True)
    for hosts in (2, 3, 4):
        yield Design(f"gain 10 %, k=20, {hosts} hosts", 20, 10, 0.05, 0.10, hosts=hosts)
    for hosts in (1, 2, 3, 4):
        name = f"last stack interacts by 10 %, {hosts} hosts"
        yield Design(name, 20, 10, 0.02, hosts=hosts, interaction=0.10)
    for hosts in (1, 2, 3):
        name = f"gain 10 %, last stack interacts, {hosts} hosts"
        yield Design(name, 20, 10, 0.02, 0.10, hosts=hosts, interaction=0.10)
    yield from designs_of_nights()
    yield from designs_of_sessions()


def designs_of_nights() -> Iterator[Design]:
    """Jobs that are not independent: nights, neighbours in time, coarse clocks."""
    for candidates, sd in ((5, 0.02), (5, 0.05), (1, 0.05), (20, 0.05)):
        name = f"identical, 5 nights differ by 3 %, k={candidates}"
        yield Design(name, candidates, 10, sd, nights=5, between=0.03)
    for correlation in (0.5, 0.8):
        for jobs in (10, 12, 20):
            name = f"identical, k=5, autocorrelation {correlation}"
            yield Design(name, 5, jobs, 0.05, correlation=correlation)
    for nights in (2, 5):
        yield Design(f"gain 10 %, k=5, {nights} nights", 5, 10, 0.05, 0.10, nights=nights)
    name = "gain 10 %, k=5, 5 nights differ by 3 %"
    yield Design(name, 5, 10, 0.02, 0.10, nights=5, between=0.03)
    for tick, sd in ((0.2, 0.0), (0.2, 0.03), (0.05, 0.003), (0.02, 0.003)):
        name = f"k=5, 0.3 % apart, clock of {tick:.0%}"
        yield Design(name, 5, 10, sd, tick=tick, step=0.003)


def designs_of_sessions() -> Iterator[Design]:
    """Packs: series that were measured in the same sessions, seven jobs of each stack in each."""
    single = Design("", 4, 7, 0.03, nights=2, packed=True)
    several = replace(single, groups=12, judged=1)
    for base, what in ((single, "1 series"), (several, "12 series")):
        for between in (0.0, 0.01, 0.02, 0.03):
            name = f"{what}, 2 sessions differ by {between:.0%}"
            same = replace(base, name=f"identical, {name}", between=between)
            yield same
            yield replace(same, name=f"gain 10 %, {name}", gain=0.10)
    single = replace(single, between=0.01)
    for sd in (0.01, 0.05):
        yield replace(single, name="identical, 1 series, 2 sessions differ by 1 %", sd=sd)
        name = "identical, 1 series, 2 sessions differ by 3 %"
        yield replace(single, name=name, sd=sd, between=0.03)
    for sessions in (3, 5):
        name = f"1 series, {sessions} sessions differ by 1 %"
        yield replace(single, name=f"identical, {name}", nights=sessions)
        yield replace(single, name=f"gain 10 %, {name}", nights=sessions, gain=0.10)
    name = "identical, 20 stacks, 2 sessions differ by 1 %"
    yield replace(single, name=name, candidates=19)
    for hosts_between in (0.01, 0.03):
        name = f"identical, 2 hosts, 2 sessions differ by {hosts_between:.0%}"
        yield replace(single, name=name, hosts=2, between=hosts_between)
    name = "identical, 12 series, all judged, sessions 1 %"
    yield replace(several, name=name, between=0.01, judged=None)


#: What a site makes up: gain of the last stack, its drift in the last session, and the noise.
SITES: Mapping[str, tuple[float, float, float]] = {
    "invents a gain of 20 %": (0.2, 0.0, 0.02),
    "invents a loss of 20 %": (-0.2, 0.0, 0.02),
    "has a session that drifts by 10 %": (0.0, 0.1, 0.02),
    "invents 3 % and a tiny variance": (0.03, 0.0, 1e-6),
}


def sites(answers: int) -> None:
    """What packs of dishonest sites change in verdicts of own jobs, whose last stack gains 10 %."""
    print(
        f"\n{answers} answers a site: verdicts of own jobs that differ from those without the pack"
    )
    trusted = EvidencePack("sha256:pack", "pack", "key")
    for name, site in SITES.items():
        counts: Counter[tuple[str, str]] = Counter()
        for number in range(answers):
            draw = np.random.default_rng([SEED, number])
            own = _site(draw, None, 0.10, 0.0, 0.03)
            alone = _own_verdicts(own)
            for pack in (trusted, replace(trusted, problem="nobody signed it")):
                kind = "unknown key" if pack.problem else "trusted"
                other = replace(_site(draw, pack, *site), packs=(pack,))
                with_pack = _own_verdicts(own.with_packs([other]))
                for key, verdict in with_pack.items():
                    changed = verdict is not alone[key]
                    lost = changed and verdict is Verdict.UNDETERMINED
                    counts[kind, "lost" if lost else "moved" if changed else "kept"] += 1
        texts = (f"{kind}: {what} {counts[kind, what]}" for kind in ("unknown key", "trusted")
                 for what in ("kept", "lost", "moved"))  # fmt: skip
        print(f"  {name:<36} {', '.join(texts)}", flush=True)


def _site(
    draw: np.random.Generator, pack: EvidencePack | None, gain: float, drift: float, sd: float
) -> Evidence:
    """Seven jobs of five stacks in turns, in each of two sessions."""
    bench, how = Bench(), series(origin=pack and pack.digest)
    for version in range(5):
        last = version == 4
        for session in range(2):
            rates = draw.normal(last * (gain + drift * session), sd, 7)
            run = f"{how.origin}{session}"
            blocks = [f"{run}:{turn}" for turn in range(7)]
            stack = bench.stack(f"fast=={version}", "rest==1")
            bench.measure(stack, rates, how, run=run, blocks=blocks)
    return bench.evidence()


def _own_verdicts(evidence: Evidence) -> dict[str | None, Verdict]:
    """The verdicts of own jobs about each version, against the first one."""
    versions = {"fast": [purl(f"fast=={it}") for it in range(5)], "rest": [purl("rest==1")]}
    base = {name: several[0] for name, several in versions.items()}
    measured = MeasuredStacks(snapshot_of({}, []), evidence)
    performance = performance_of(evidence, measured, base, versions, PLACE)
    return {
        it.purl: it.verdict for it in performance.claims if it.origin is None and it.beside_baseline
    }


def main(answers: int = ANSWERS) -> None:
    """Print the tables."""
    began = perf_counter()
    print(f"{answers} answers a design, seed {SEED}, drift of {DRIFT:.0%} a turn")
    print(
        "false: share of answers with a false claim; found: share with the true gain, in per cent"
    )
    heads = " | ".join(f"{name:^15}" for name, _ in RULES)
    print(f"{'design':<45} {'jobs':>4} {'sd':>5} | {heads}")
    for number, design in enumerate(designs()):
        draw = np.random.default_rng([SEED, number])
        print(_row(design, [design.histories(draw) for _ in range(answers)]), flush=True)
    sites(answers)
    print("last stack interacts: its own claims count as found, those of the others as false")
    _calibration(answers)
    print(f"{perf_counter() - began:.0f} s")


def _row(design: Design, drawn: Sequence[Sequence[History]]) -> str:
    cells = []
    for _, rule in RULES:
        false, hits = 0, 0
        for histories in drawn:
            verdicts = rule(histories)
            claims = {n for n, it in enumerate(verdicts) if it in ("faster", "slower")}
            right = {0} if design.gain and verdicts[0] == "faster" else set()
            if design.interaction and not design.gain:
                right = claims & {design.candidates - 1}
            if design.interaction and design.gain:
                claims -= {design.candidates - 1}
            false += bool(claims - right)
            hits += bool(right)
        share = f"{100 * hits / len(drawn):6.1f}" if design.gain or design.interaction else " " * 6
        cells.append(f"{100 * false / len(drawn):7.2f} {share} ")
    held = _held(design, drawn) if design.packed else ""
    return f"{design.name:<45} {design.jobs:>4} {design.sd:>5.0%} | {' | '.join(cells)}{held}"


def _held(design: Design, drawn: Sequence[Sequence[History]]) -> str:
    """The share of 95 % intervals of the shipped rule that contain the true effect."""
    held = [
        it.interval_low_pct <= 100 * design.gain * (n == 0) <= it.interval_high_pct
        for histories in drawn
        for n, it in enumerate(shipped(histories))
    ]
    return f" held {np.mean(held):.1%}"


#: True gains of the candidates from which predictions start. In half of the answers all are 0.
_GAINS = (0.0, 0.0, 0.01, 0.02, 0.03, 0.05, 0.08, -0.02, -0.04)


def _calibration(answers: int) -> None:
    """Predicted chances, and how often the jobs then settled a difference, by tenths."""
    draw = np.random.default_rng([SEED, 10_000])
    chances: list[float] = []
    settled: list[bool] = []
    planned: list[bool] = []
    truth: list[float] = []
    for _ in range(answers):
        sd = float(draw.choice([0.02, 0.03, 0.05]))
        gains = draw.choice(_GAINS, 5) * float(draw.random() < 0.5)
        first = _drawn(draw, gains, sd, 8)
        for n, comparison in enumerate(shipped([_as_history(first)])):
            more = max(comparison.jobs_missing, comparison.baseline_jobs_missing)
            if comparison.verdict is not Verdict.UNDETERMINED or not more or more > 200:
                continue
            later = np.concatenate([first, _drawn(draw, gains, sd, more)], axis=1)
            after = shipped([_as_history(later)])[n].verdict
            chances.append(comparison.chance)
            truth.append(float(gains[n]))
            settled.append(after.different)
            planned.append(after is not Verdict.UNDETERMINED)
    print(
        f"\n{len(chances)} open comparisons, 5 candidates, 8 turns so far: predicted and observed"
    )
    bounds = np.linspace(0, 1, 11)
    place = np.minimum((np.array(chances) * 10).astype(int), 9)
    for tenth in range(10):
        chosen = place == tenth
        if chosen.any():
            predicted = np.mean(np.array(chances)[chosen])
            observed = np.mean(np.array(settled)[chosen])
            print(
                f"  chance {bounds[tenth]:.1f}-{bounds[tenth + 1]:.1f}:"
                f" predicted {predicted:.1%}, observed {observed:.1%} ({int(chosen.sum())})"
            )
    for gain in sorted(set(truth)):
        chosen = np.array(truth) == gain
        predicted = np.mean(np.array(chances)[chosen])
        observed = np.mean(np.array(settled)[chosen])
        print(
            f"  true gain {gain:+.0%}: predicted {predicted:.1%}, observed {observed:.1%}"
            f" ({int(chosen.sum())})"
        )
    print(f"  any verdict after the jobs that were missing: {np.mean(planned):.1%} (planned 80 %)")


def _drawn(draw: np.random.Generator, gains: Rates, sd: float, jobs: int) -> Rates:
    rates = draw.normal(0, sd, (len(gains) + 1, jobs))
    rates[1:] += np.log1p(gains)[:, None]
    return rates


def _as_history(rates: Rates) -> History:
    jobs: dict[str, tuple[MeasuredJob, ...]] = {}
    for n, row in enumerate(rates):
        places = (JobPlace("host", f"{turn:05}", "run") for turn in range(len(row)))
        jobs[_stack(n)] = tuple(
            MeasuredJob(f"{turn:05}", float(rate), place, None, ())
            for turn, (rate, place) in enumerate(zip(row, places, strict=True))
        )
    return History(series(), jobs, {}, {})


if __name__ == "__main__":
    main()
