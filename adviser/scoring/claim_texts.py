"""Write claims about speed as sentences: first the answer, then its evidence.

Titles of series are short: they have only the settings that distinguish the series.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adviser.scoring.assessment_types import Claim, Justification, JustificationCode, NoteLevel
from adviser.scoring.comparisons import Comparison
from adviser.scoring.sample_needs import AGAIN, COMPARE, INSPECT, Need, settling_text
from adviser.scoring.stack_pairs import version_of_purl
from adviser.scoring.verdicts import Verdict
from adviser.stack_comparison import short_digest
from model.measurements.evidence import COMMAND, COMMAND_TEXT
from model.measurements.job_stability import disturbed_jobs, left_out_text
from model.text import counted, first_few

_CODES = {
    Verdict.FASTER: (JustificationCode.FASTER, NoteLevel.INFO),
    Verdict.SLOWER: (JustificationCode.SLOWER, NoteLevel.WARNING),
    Verdict.EQUIVALENT: (JustificationCode.EQUIVALENT, NoteLevel.INFO),
    Verdict.UNDETERMINED: (JustificationCode.UNDETERMINED, NoteLevel.INFO),
}
#: Parameters that always appear, like all that end with ``size``.
_SHOWN_PARAMETERS = frozenset({"device", "dtype", "batch", "threads"})
#: Claims of two versions with one verdict that are worth a sentence about all of them.
_MIN_GROUP = 3
#: Maximum number of names in a list.
_MOST = 5
#: Factors and percentages above this are not written out.
_LARGEST = 1000
#: Smaller differences, per cent, are none.
_SMALLEST_PCT = 0.05


def effect_text(
    observed_pct: float, low_pct: float, high_pct: float, other: str = ""
) -> tuple[str, str]:
    """A difference, and its 95 % interval in the same unit.

    Factors of two and more are written as factors. Number and interval are rounded alike, to the
    fewest decimals that keep them apart from each other and from zero.

    :param observed_pct: the observed difference, in per cent of the baseline's rate
    :param low_pct: lower end of the interval; infinite, like the upper end, if unknown
    :param other: name of the compared version or stack

    >>> effect_text(25.4, 22.9, 28.0, "2.0.2")
    ('25 % faster than 2.0.2', '95 % interval 23 to 28 %')
    >>> effect_text(-20.2, -21.4, -18.9)
    ('20 % slower', '95 % interval 19 to 21 %')
    >>> effect_text(220, 180, 260, "2.0.2")
    ('3.2 times as fast as 2.0.2', '95 % interval 2.8 to 3.6')
    >>> effect_text(3.1, -2.9, 9.4)
    ('3 % faster', '95 % interval 3 % slower to 9 % faster')

    :returns: ``"no difference"`` for less than 0.05 %; an empty interval without comparable jobs
    """
    if math.isnan(observed_pct):
        return "no jobs to compare", ""
    observed = observed_pct if abs(observed_pct) >= _SMALLEST_PCT else 0.0
    known = math.isfinite(low_pct) and math.isfinite(high_pct)
    values = [observed, low_pct, high_pct] if known else [observed]
    slower = observed < 0
    adjective = "slow" if slower else "fast"
    ratios = [1 + it / 100 for it in values]
    factors = [1 / it if it > 0 else math.inf for it in ratios] if slower else ratios
    if round(factors[0], 1) >= 2:
        size, *ends = _rounded(factors, 0 if factors[0] >= 10 else 1)
        text, unit = f"{size} times as {adjective}{other and f' as {other}'}", ""
    else:
        size, *ends = (it.removeprefix("-") for it in _rounded(values, 0))
        text, unit = f"{size} % {adjective}er{other and f' than {other}'}", " %"
    if unit and known and low_pct < 0 < high_pct:
        unit, ends = "", [f"{ends[0]} % slower", f"{ends[1]} % faster"]
    elif slower:
        ends.reverse()
    interval = f"95 % interval {' to '.join(ends)}{unit}" if ends else "of unknown error"
    return text if observed else "no difference", interval


def comparison_effect_text(comparison: Comparison, other: str = "") -> tuple[str, str]:
    """:func:`effect_text` of a comparison."""
    ends = comparison.interval_low_pct, comparison.interval_high_pct
    return effect_text(comparison.difference_pct, *ends, other)


def _rounded(values: Sequence[float], decimals: int) -> list[str]:
    """Numbers rounded alike, to the fewest decimals that keep them apart and from zero, at most 2.

    >>> _rounded([10.2, 9.5, 11.0], 0), _rounded([2.0, 0.3, 4.0], 0), _rounded([5e21], 0)
    (['10.2', '9.5', '11.0'], ['2.0', '0.3', '4.0'], ['more than 1,000'])
    """
    while decimals < 2:
        rounded = [round(it, decimals) for it in values]
        if len(set(rounded)) == len(set(values)) and all(rounded) is all(values):
            break
        decimals += 1
    return [f"more than {_LARGEST:,}" if it > _LARGEST else f"{it:.{decimals}f}" for it in values]


def series_in(claims: Sequence[Mapping[str, Any]], *, hardware_named: bool = True) -> list[str]:
    """For each claim of a report, its indicator and the settings that distinguish its series.

    For example, ``PiMatmul with matrix_size 512 on other hardware (AMD EPYC)``.

    :param claims: as JSON values
    :param hardware_named: whether the report is about a hardware class; else none is another
    """
    titled = [
        TitledSeries(
            indicator_title(claim["indicator"], claim["parameters"]),
            None, "", _parameters(claim.get("device"), claim["parameters"]),
        )
        for claim in claims
    ]  # fmt: skip
    texts = []
    for claim, settings in zip(claims, differing_settings(titled), strict=True):
        elsewhere = _elsewhere_text(
            None if claim["same_hardware"] else claim["hardware_label"],
            None if claim["same_python"] else claim["python_version"],
            hardware_named=hardware_named,
        )
        texts.append(f"{claim['indicator']}{_with_text(settings)}{elsewhere}")
    return texts


def _with_text(settings: Sequence[str]) -> str:
    return f" with {', '.join(settings)}" if settings else ""


def _elsewhere_text(
    hardware: str | None, python: str | None, *, hardware_named: bool = True
) -> str:
    """`` on other hardware (AMD EPYC) and another Python (3.11)``; empty if both are ``None``."""
    parts = []
    if hardware is not None:
        parts.append(f"other hardware ({hardware})" if hardware_named else hardware)
    if python is not None:
        parts.append(f"another Python ({python})")
    return f" on {' and '.join(parts)}" if parts else ""


class ClaimTexts:
    """Sentences about the claims of one output.

    A sentence names the parameters that tell its series apart from the other series of the same
    indicator in the output.

    :param claims: all claims of the output
    :param stacks: names of the two stacks of a claim about several packages; by default, digests
    :param once: leave hardware and origin out of the sentences if all claims on the hardware asked
        for share them; :attr:`common` has them, and is empty otherwise
    :param hardware_named: as for :func:`series_in`
    :param python: option of commands that measure; see :attr:`Environment.option`
    """

    def __init__(
        self, claims: Iterable[Claim], stacks: tuple[str, str] | None = None, *,
        once: bool = False, hardware_named: bool = True, python: str = "",
    ) -> None:  # fmt: skip
        claims = tuple(claims)
        self._python = python
        self._hardware_named = hardware_named
        self._stacks = stacks
        series = {it.comparison_key: it for it in claims}
        self._settings = dict(zip(series, _settings(series.values()), strict=True))
        here = [it for it in claims if it.same_hardware] or claims
        shared = {_circumstances(it) for it in here} if once else ()
        self.common = shared.pop() if len(shared) == 1 else ""

    def justification(self, claim: Claim) -> Justification:
        """A claim as a message."""
        details = self._details([claim], self._other_parameters(claim))
        return _justification([claim], f"{self.sentence(claim)}{details}")

    def justifications(
        self, claims: Iterable[Claim], *, every: bool = False
    ) -> Iterator[Justification]:
        """The claims as messages, one for several series of two versions with the same verdict.

        :param every: whether to write each claim by itself
        """
        groups: dict[object, list[Claim]] = defaultdict(list)
        for it in claims:
            groups[_group(it)].append(it)
        for group in groups.values():
            group.sort(key=lambda it: list(map(_by_value, self._settings_of(it))))
            alike, apart = ([], group) if every else _divided(group)
            if alike:
                yield _justification(alike, f"{self._summary(alike)}{self._details(alike)}")
            yield from map(self.justification, apart)

    def series(self, claim: Claim) -> str:
        """``PiMatmul with matrix_size 512``: the indicator, and the settings of the series."""
        return f"{_title(claim)}{self._with(claim)}"

    def place(self, claim: Claim) -> str:
        """:meth:`series`, with the hardware and the Python if they differ from the target."""
        return f"{self.series(claim)}{self._elsewhere(claim)}"

    def sentence(self, claim: Claim) -> str:
        """The verdict with its interval and number of jobs."""
        ours, theirs = self._names(claim)
        where = f"in {self.place(claim)}"
        if claim.verdict.different:
            size, interval = _effect(claim, theirs)
            return f"{ours} is {size} {where} ({interval}, {_jobs_text(claim)})"
        small = _too_small_text(claim) if claim.verdict is Verdict.UNDETERMINED else ""
        known = ", ".join(filter(None, (*_effect(claim), small, _jobs_text(claim))))
        if claim.verdict is Verdict.EQUIVALENT:
            return f"{ours} is as fast as {theirs}, {_margin(claim)}, {where} ({known})"
        needs = need_text(claim, self._python)
        return f"undetermined whether {ours} or {theirs} is faster {where}: {needs} ({known})"

    def _summary(self, claims: Sequence[Claim]) -> str:
        """A sentence about several series of two versions with the same verdict."""
        first = claims[0]
        ours, theirs = self._names(first)
        where = f"in {len(claims)} series of {_title(first)}{self._elsewhere(first)}"
        names = self._list_of(claims)
        if first.verdict.different:
            by_size = sorted(claims, key=lambda it: abs(math.log1p(it.observed_pct / 100)))
            ends = by_size[0], by_size[-1]
            if len(set(map(_effect, ends))) == 1:
                size, interval = _effect(first, theirs)
                return f"{ours} is {size} {where} ({interval} each; {names})"
            sizes = [
                f"{size}{self._with(it)} ({interval})"
                for it, (size, interval) in zip(ends, map(_effect, ends), strict=True)
            ]
            verdict = first.verdict.value
            return f"{ours} is {verdict} than {theirs} {where}, from {' to '.join(sizes)}"
        if first.verdict is Verdict.EQUIVALENT:
            margin = _margin(max(claims, key=lambda it: it.delta_pct))
            return f"{ours} is as fast as {theirs}, {margin}, {where} ({names})"
        nearest = min(claims, key=lambda it: it.jobs_missing + it.baseline_jobs_missing)
        needs = need_text(nearest, self._python)
        if nearest.needs in (Need.JOBS, Need.RUNS, Need.HOSTS):
            needs = f"{self._with(nearest).strip()}, {needs}"
        question = f"undetermined whether {ours} or {theirs} is faster {where}"
        own = first.same_hardware and first.origin is None
        if own or not all(math.isfinite(it.interval_low_pct) for it in claims):
            return f"{question} ({names}): {needs}"
        # What others saw is all that is known; intervals are wider here than on their hardware.
        there, here = ("", "") if first.same_hardware else ("there ", "here ")
        by_effect = sorted(claims, key=lambda it: it.observed_pct)
        low, high = (f"{_effect(it)[0]}{self._with(it)}" for it in (by_effect[0], by_effect[-1]))
        lowest = min(it.interval_low_pct for it in claims)
        highest = max(it.interval_high_pct for it in claims)
        interval = effect_text(first.observed_pct, lowest, highest)[1]
        return f"{question}: {there}from {low} to {high}, {here}{interval}; {needs}"

    def _is_common(self, claim: Claim) -> bool:
        return _circumstances(claim) == self.common

    def _elsewhere(self, claim: Claim) -> str:
        return _elsewhere_text(
            None if claim.same_hardware or self._is_common(claim) else claim.hardware_label,
            None if claim.same_python else claim.python_version or "unknown",
            hardware_named=self._hardware_named,
        )

    def _details(self, claims: Sequence[Claim], parameters: str = "") -> str:
        """Parameters, hosts that disagree, jobs left out, and other packages that differ."""
        first = claims[0]
        left_out: Counter[str] = sum((Counter(it.left_out) for it in claims), Counter())
        parts = [
            parameters,
            "" if self._is_common(first) or not first.same_hardware else first.hardware_label,
            _hosts_text(claims),
            f"left out: {left_out_text(left_out)}" if left_out else "",
            "" if self._is_common(first) else origin_text(first),
        ]
        if len(first.differs) > 1 and not first.confounded:
            parts.append(f"with it change {first_few(first.differs[1:], _MOST)}")
        if first.confounded:
            parts.append(f"{len(first.differs)} packages differ: {first_few(first.differs, _MOST)}")
        return "".join(f"; {it}" for it in parts if it)

    def _names(self, claim: Claim) -> tuple[str, str]:
        if claim.purl and claim.baseline_purl:
            ours, theirs = map(version_of_purl, (claim.purl, claim.baseline_purl))
            return f"{claim.package} {ours}", theirs
        ours, theirs = map(short_digest, (claim.stack, claim.baseline_stack))
        return self._stacks or (f"stack {ours}", f"stack {theirs}")

    def _with(self, claim: Claim) -> str:
        return _with_text(self._settings_of(claim))

    def _settings_of(self, claim: Claim) -> Sequence[str]:
        return self._settings.get(claim.comparison_key, ())

    def _list_of(self, claims: Sequence[Claim]) -> str:
        """``matrix_size 64, 128, 256``: the settings that distinguish these series."""
        settings = [self._settings_of(it) for it in claims]
        names = {tuple(it.partition(" ")[0] for it in several) for several in settings}
        if len(names) > 1 or len(settings[0]) != 1:
            return first_few(["/".join(it) for it in settings], _MOST)
        ((name,),) = names
        return f"{name} {first_few([it.partition(' ')[2] for (it,) in settings], _MOST)}"

    def _other_parameters(self, claim: Claim) -> str:
        """The most important parameters that the sentence does not name; the claim has all."""
        return ", ".join(
            text
            for key, value in sorted(_parameters(claim.device, claim.parameters).items())
            if value is not None and (key in _SHOWN_PARAMETERS or key.endswith("size"))
            if (text := f"{key} {value}") not in self._settings_of(claim)
        )


def _settings(claims: Collection[Claim]) -> Iterator[list[str]]:
    """For each series, given by a claim, the settings that tell it apart, such as its size.

    Series that differ only in their script are told apart by their keys.
    """
    settings = differing_settings(
        [TitledSeries(_title(it), None, "", _parameters(it.device, it.parameters)) for it in claims]
    )
    places = [
        (it.indicator, it.hardware_digest, *some) for it, some in zip(claims, settings, strict=True)
    ]
    counts = Counter(places)
    for it, some, place in zip(claims, settings, places, strict=True):
        yield [*some, f"key {short_digest(it.comparison_key)}"] if counts[place] > 1 else some


def _parameters(device: str | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"device": device, **parameters}


def _title(claim: Claim) -> str:
    return indicator_title(claim.indicator, claim.parameters)


def _by_value(setting: str) -> tuple[str, float, str]:
    """Sort key of a setting such as ``matrix_size 512``: numbers by their values."""
    name, _, value = setting.partition(" ")
    return name, float(value) if value.isdecimal() else math.inf, value


def _group(claim: Claim) -> object:
    return (
        claim.purl, claim.baseline_purl, claim.differs, claim.indicator, claim.hardware_digest,
        claim.python_version, claim.verdict, claim.needs, origin_text(claim),
    )  # fmt: skip


def _divided(group: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
    """The claims that share one sentence, and the claims with their own sentences.

    A difference has its own sentence if its interval lies apart from that of the median, unless
    this holds for more than a quarter of the group, which is a trend.
    """
    if len(group) < _MIN_GROUP:
        return [], list(group)
    if not group[0].verdict.different:
        return list(group), []
    middle = sorted(group, key=lambda it: it.observed_pct)[len(group) // 2]
    apart = [
        it
        for it in group
        if it.interval_low_pct > middle.interval_high_pct
        or it.interval_high_pct < middle.interval_low_pct
    ]
    if 4 * len(apart) > len(group):
        apart = []
    return [it for it in group if it not in apart], apart


def _justification(claims: Sequence[Claim], message: str) -> Justification:
    first = claims[0]
    code, level = _CODES[first.verdict]
    if first.origin is not None and first.origin.problem is not None:
        code, level = JustificationCode.SHOWN, NoteLevel.INFO
    if first.confounded:
        code, level = JustificationCode.CONFOUNDED, NoteLevel.INFO
    evidence = tuple(sorted({one for it in claims for one in it.evidence}))
    return Justification(code, level, message, first.package, first.purl, None, evidence)


def _effect(claim: Claim, other: str = "") -> tuple[str, str]:
    return effect_text(claim.observed_pct, claim.interval_low_pct, claim.interval_high_pct, other)


def _margin(claim: Claim) -> str:
    return f"to within {f'{claim.delta_pct:.1f}'.removesuffix('.0')} %"


def _too_small_text(claim: Claim) -> str:
    """Why a claim is undetermined if its interval excludes zero, but not what is too small."""
    near = max(claim.interval_low_pct, -claim.interval_high_pct)
    if not 0 < near <= claim.delta_pct:
        return ""
    return f"not settled to be more than {f'{claim.delta_pct:.1f}'.removesuffix('.0')} %"


def _jobs_text(claim: Claim) -> str:
    """``7 pairs of jobs``: the number of jobs, and of the runs and hosts that they come from."""
    if not claim.jobs and not claim.baseline_jobs:
        return ""
    if claim.pairs and claim.pairs == claim.jobs == claim.baseline_jobs:
        text = counted(claim.pairs, "pair of jobs", "pairs of jobs")
    elif claim.jobs == claim.baseline_jobs:
        text = f"{counted(claim.jobs, 'job')} of each"
    else:
        text = f"{claim.jobs} and {claim.baseline_jobs} jobs"
    hosts = f" on {claim.hosts} hosts" if (claim.hosts or 0) > 1 else ""
    return f"{text}{_runs_text(claim)}{hosts}"


def _runs_text(claim: Claim) -> str:
    """The number of runs, if jobs share runs and their number is known."""
    ours, theirs = claim.runs, claim.baseline_runs
    if claim.pairs:
        word = "run" if claim.origin is None else "session"
        return f" in one {word}" if claim.batches == 1 else f" in {claim.batches} {word}s"
    if (ours, theirs) == (claim.jobs, claim.baseline_jobs):
        return ""
    if ours == theirs:
        return f" in {counted(ours, 'run')} each" if ours > 1 else " in one run each"
    return f" in {ours} and {theirs} runs"


def _circumstances(claim: Claim) -> str:
    """Hardware and origin of a claim."""
    where = claim.hardware_label
    where = f"on {where}" if claim.same_hardware else f"on other hardware ({where})"
    return "; ".join(filter(None, (where, origin_text(claim))))


def origin_text(claim: Claim) -> str:
    """Who measured a claim, and how it agrees with packs; empty for own jobs alone."""
    origin = claim.origin
    if origin is None:
        parts = (("confirms", claim.confirms), ("overrules", claim.overrules))
        return "; ".join(f"{verb} pack {first_few(them, _MOST)}" for verb, them in parts if them)
    decides = "" if origin.problem is None else f", which decides nothing: {origin.problem}"
    return f"measured by others: pack {origin.name}{decides}"


def _hosts_text(claims: Sequence[Claim]) -> str:
    """How hosts disagree, beyond chance."""
    disagreeing = [it.host_differences_pct for it in claims if it.host_differences_pct]
    if not disagreeing:
        return ""
    if len(claims) > 1:
        return f"hosts disagree in {len(disagreeing)} of these series"
    return hosts_text(disagreeing[0])


def hosts_text(by_host: Mapping[str, float]) -> str:
    """How hosts disagree, given the difference on each in per cent."""
    low, high = min(by_host, key=by_host.__getitem__), max(by_host, key=by_host.__getitem__)
    return (
        f"the {len(by_host)} hosts disagree, from {by_host[low]:+.1f} % on"
        f" {short_digest(low)} to {by_host[high]:+.1f} % on {short_digest(high)}"
    )


def need_text(claim: Claim, python: str = "") -> str:
    """The jobs that settle an undetermined claim; see :func:`settling_text`.

    :param python: as for :class:`ClaimTexts`; a pack measures again with its own Python only
    """
    compare = COMPARE.replace(" --ingest", f"{python} --ingest")
    if claim.origin is None:
        own = claim.parameters.get(COMMAND_TEXT) if claim.indicator == COMMAND else None
        command = compare.replace("COMMAND", str(own)) if own else INSPECT
    else:
        command = AGAIN if claim.purl and claim.here else compare
        for name, purl in (("OLD", claim.baseline_purl), ("NEW", claim.purl)):
            pinned = f"{claim.package}=={version_of_purl(purl)}" if purl else name
            command = command.replace(name, pinned)
    return settling_text(claim, 0 if claim.pairs else disturbed_jobs(claim.left_out), command)


#: Parameter with the name of what an indicator of a library measures.
_OPERATION = "operation"


def indicator_title(indicator: str, parameters: Mapping[str, Any]) -> str:
    """The name of an indicator; of the measurements of a command, the command.

    >>> indicator_title("PiMatmul", {}), indicator_title("command", {"command": "python a.py"})
    ('PiMatmul', '`python a.py`')
    """
    command = parameters.get(COMMAND_TEXT)
    return f"`{command}`" if indicator == COMMAND and isinstance(command, str) else indicator


@dataclass(frozen=True, slots=True)
class TitledSeries:
    """The parts of a title.

    :param component: measured library, if known
    :param settings: parameters and other settings that may tell series apart
    """

    indicator: str
    component: str | None
    hardware_label: str
    settings: Mapping[str, Any]


def differing_settings(series: Sequence[TitledSeries]) -> list[list[str]]:
    """For each series, in order, the settings that tell it apart from series like it.

    >>> sizes = ({"matrix_size": 64, "dtype": "f32"}, {"matrix_size": 128, "dtype": "f32"})
    >>> differing_settings([TitledSeries("PiMatmul", None, "AMD EPYC", it) for it in sizes])
    [['matrix_size 64'], ['matrix_size 128']]
    """
    alike: dict[tuple[str, str | None, str], list[TitledSeries]] = defaultdict(list)
    for it in series:
        alike[it.indicator, it.component, it.hardware_label].append(it)
    return [
        _settings_apart(it, alike[it.indicator, it.component, it.hardware_label]) for it in series
    ]


def short_titles(series: Sequence[TitledSeries]) -> list[str]:
    """A title for each series, in order: indicator, library, differing settings and hardware.

    >>> on = "AMD EPYC, 2 CPUs"
    >>> sizes = ({"matrix_size": 64, "dtype": "f32"}, {"matrix_size": 128, "dtype": "f32"})
    >>> short_titles([TitledSeries("PiMatmul", "numpy", on, it) for it in sizes])[0]
    'PiMatmul of numpy, matrix_size 64, on AMD EPYC, 2 CPUs'
    """
    titles = []
    for titled, settings in zip(series, differing_settings(series), strict=True):
        library = f" of {titled.component}" if titled.component else ""
        parts = [f"{titled.indicator}{library}", *settings, f"on {titled.hardware_label}"]
        titles.append(", ".join(parts))
    return titles


def _settings_apart(series: TitledSeries, alike: Sequence[TitledSeries]) -> list[str]:
    names = sorted({name for it in alike for name in it.settings})
    values = {name: {repr(it.settings.get(name)) for it in alike} for name in names}
    differing = [name for name in names if len(values[name]) > 1]
    # Sizes belong to an operation, so its name says it all.
    if len(values.get(_OPERATION, ())) == len({repr(sorted(it.settings.items())) for it in alike}):
        differing = [_OPERATION]
    values_here = {it: series.settings.get(it) for it in differing}
    return [f"{it} {'unset' if value is None else value}" for it, value in values_here.items()]
