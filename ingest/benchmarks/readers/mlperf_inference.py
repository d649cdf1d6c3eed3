"""MLPerf Inference: logs of LoadGen, accuracies, and lines of the reference application.

Layout: ``DIVISION/SUBMITTER/results/SYSTEM/BENCHMARK/SCENARIO/performance/run_N``, with the machine
in ``systems/SYSTEM.json``. Audit runs (``test_*``, ``TEST01``, ``audit``) are not submitted results
and are left out. In the scenario Server, the claimed value must hold in every run, so an entry has
their minimum.

The headlines of v0.5 changed later: a latency for Multi Stream instead of a number of streams, and
completed instead of scheduled samples for Server. Since v2.0 a run may stop early, and the estimate
of LoadGen is the official result of Single Stream and Multi Stream. The definition distinguishes
both rules.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from posixpath import basename, dirname, join
from typing import Any

import orjson

from ingest.benchmarks.result_tree import ResultFile, ResultTree, missing_value, results_or_refusal
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Measure,
    Run,
    finite_number,
    first_group,
    measure,
    numbered_parts,
    positive_number,
    product_of,
    run_of,
    software_versions,
    stated_texts,
    time_of_text,
    whole_number,
    with_parameters,
)
from model.errors import InvalidDocument
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter, Validity
from model.text import counted

_V05 = "mlperf-inference-v0.5"
#: Logs of later versions say no version of the rules; LoadGen has a version of its own.
_LATER, _LATER_DEFINITION = "mlperf-inference", "mlperf-inference-early-stopping"
_SUMMARY_TITLE = "MLPerf Results Summary"
_ACCURACY = "accuracy.txt"
_DETAIL = "mlperf_log_detail.txt"
_LINE = re.compile(r"^[ \t]*([^\s:=][^:=\n]*?)[ \t]*:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
#: Units of the quantities that summaries name, apart from latencies.
_QUANTITIES = {
    "Samples per query": "", "Scheduled samples per second": "samples/s",
    "Completed samples per second": "samples/s", "Samples per second": "samples/s",
    "Tokens per second": "tokens/s", "Completed tokens per second": "tokens/s",
}  # fmt: skip
_TARGET_LATENCY = re.compile(r"(\d{1,2})(?:\.0)?th percentile latency \(ns\)")
_ESTIMATE = "Early stopping {}th percentile estimate"
_ESTIMATES = re.compile(
    r"Early stopping (\d{1,2}(?:\.[1-9]\d?)?)(?:\.0)?th percentile estimate:[ \t]*"
    r"(\d{1,18})(?![\w.,])"
)
#: Estimates below this title are of the latencies of tokens.
_ESTIMATES_OF_PARTS = "TTFT Early Stopping Result"
_ERRORS = "ERRORS encountered"
_COUNTED_ERRORS = re.compile(r"^(\d{1,9}) ERRORS? encountered\b", re.MULTILINE)
#: Shares of samples of which LoadGen estimates the latency.
_ESTIMATED = {"singlestream": "90", "multistream": "99"}
#: The headline of each scenario; the first one that a summary has counts.
_HEADLINES = {
    "singlestream": ("90th percentile latency (ns)",),
    "multistream": ("99th percentile latency (ns)", "Samples per query"),
    "server": ("Scheduled samples per second", "Completed samples per second"),
    "offline": ("Samples per second",),
}
#: Rules of latencies in nanoseconds; those of targets are read as headlines only.
_PERCENTILES = {"50": Aggregate.P50, "90": Aggregate.P90, "99": Aggregate.P99}
_LATENCIES = {
    "Mean latency (ns)": Aggregate.MEAN,
    **{f"{share}.00 percentile latency (ns)": rule for share, rule in _PERCENTILES.items()},
    "Mean First Token latency (ns)": Aggregate.MEAN,
    "99.00 percentile first token latency (ns)": Aggregate.P99,
    "Mean Time to Output Token (ns)": Aggregate.MEAN,
    "99.00 percentile time to output token (ns)": Aggregate.P99,
}
_PARAMETERS = (
    "samples_per_query", "target_qps", "target_latency (ns)", "max_async_queries",
    "min_duration (ms)", "min_query_count", "performance_sample_count",
    # Bounds of language models in the scenario Server: rates under other bounds do not compare.
    "ttft_latency (ns)", "tpot_latency (ns)",
)  # fmt: skip
_ENTRY = re.compile(r":::MLLOG (\{.*\})[ \t]*$", re.MULTILINE)
_OLD_TIME = re.compile(r"Date \+ time of test: (\S+)")
_OLD_VERSION = re.compile(r"ns : version : (\S+)")
#: Patterns of accuracies with the names and the unit of their values. Later tasks have several:
#: question answering and summarisation.
_ACCURACIES = (
    (re.compile(r"accuracy=([\d.]+)%"), ("accuracy",), "%", _V05),
    (re.compile(r"mAP=([\d.]+)%"), ("mAP",), "%", _V05),
    (re.compile(r"BLEU:?[ \t]*[=:]?[ \t]*([\d.]+)(?!\d|,\d)"), ("BLEU",), "", _V05),
    (re.compile(r'"exact_match": ([\d.]+), "f1": ([\d.]+)'), ("exact_match", "f1"), "%", _LATER),
    (
        re.compile(r"'rouge1': '?([\d.]+)'?, 'rouge2': '?([\d.]+)'?, 'rougeL': '?([\d.]+)"),
        ("rouge1", "rouge2", "rougeL"),
        "",
        _LATER,
    ),
)
_CONSOLE = re.compile(
    r"^(?:TestScenario\.(\w+)|(Accuracy)) qps=([\d.]+), mean=([\d.]+), (?:time=[\d.]+, )?"
    r"(?:acc=([\d.]+), )?queries=(\d+)\b",
    re.MULTILINE,
)
#: Folder of a run; summaries in other folders may be of other models.
_RUN = re.compile(r"run_?\d+")
_AUDIT = re.compile(r"(?:.*/)?(?:audit|compliance|test_[^/]*|test\d\d(?:-[^/]*)?)/", re.IGNORECASE)
_NO_VALUE = frozenset({"", "-", "na", "n/a", "none", "0"})


def read(tree: ResultTree, places: Sequence[str]) -> Iterator[BenchmarkResult | InvalidDocument]:
    """Results of each summary, accuracy and console log, and one entry for all runs of Server."""
    servers: dict[tuple[str, str], list[BenchmarkResult]] = {}
    for place in places:
        if _AUDIT.match(place):
            continue
        for result in results_or_refusal(_results(tree, place), place):
            yield result
            if (
                isinstance(result, BenchmarkResult)
                and result.metric.name in _HEADLINES["server"]
                and _RUN.fullmatch(basename(dirname(place)))
            ):
                key = (dirname(dirname(place)), result.metric.name)
                servers.setdefault(key, []).append(result)
    for (folder, _), runs in servers.items():
        if len(runs) > 1:
            yield _claimed(folder, runs)


def _results(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    text = file.text
    if basename(dirname(place)) == "accuracy" and basename(place) != _ACCURACY:
        return  # logs of an accuracy run, whatever they say of its speed
    if _SUMMARY_TITLE in text:
        summaries = text.split(_SUMMARY_TITLE)[1:]
        for run, summary in numbered_parts(_described(tree, file), summaries):
            lines = dict(reversed(_LINE.findall(summary)))
            if errors := first_group(_COUNTED_ERRORS, summary):
                lines[_ERRORS] = errors
            # Latencies that LoadGen estimates because the run may have stopped early.
            if _ESTIMATES_OF_PARTS not in summary:
                estimates = _ESTIMATES.findall(summary)
                lines |= {_ESTIMATE.format(share): value for share, value in estimates}
            yield from _summary(tree, file, run, lines)
    elif _CONSOLE.search(text):
        yield from _console(file)
    elif basename(place) == _ACCURACY or _ACCURACIES[0][0].search(text):
        for pattern, names, unit, system in _ACCURACIES:
            if scores := pattern.findall(text):
                run = replace(_described(tree, file), system=system)
                values = scores[-1] if len(names) > 1 else scores[-1:]
                for name, value in zip(names, values, strict=True):
                    yield run.result(measure(name, unit, HIGHER, system, zero_counts=True), value)
                return
        raise missing_value(place, "accuracy", "no accuracy, mAP, BLEU, F1 or ROUGE")


def _claimed(folder: str, runs: Sequence[BenchmarkResult]) -> BenchmarkResult:
    """The entry of the scenario Server: the smallest value of its runs."""
    values = tuple(it.value for it in runs if it.value is not None)
    wrong = [it for it in runs if it.validity is not Validity.VALID]
    reason = f"{len(wrong)} of {len(runs)} runs are not valid" if wrong else None
    return replace(
        runs[0], source=folder, value=min(values, default=None), samples=values,
        aggregate=Aggregate.MINIMUM, validity=Validity.INVALID if wrong else Validity.VALID,
        reason=reason or next((it.reason for it in runs if it.reason), None), measured_at=None,
        files=tuple(file for run in runs for file in run.files),
    )  # fmt: skip


def _summary(
    tree: ResultTree, file: ResultFile, run: Run, lines: Mapping[str, str]
) -> Iterator[BenchmarkResult]:
    """Results of a summary."""
    scenario = lines.get("Scenario")
    if scenario is None:
        raise missing_value(file.place, "Scenario", "the summary names no scenario")
    plain_scenario = scenario.lower().replace(" ", "")
    headlines = _HEADLINES.get(plain_scenario)
    if headlines is None:
        raise missing_value(file.place, "Scenario", f"the scenario {scenario[:40]!r} is unknown")
    # LoadGen wrote ``90th`` and later ``90.0th``.
    stated = {
        f"{match[1]}th percentile latency (ns)"
        if (match := _TARGET_LATENCY.fullmatch(name))
        else name: text
        for name, text in lines.items()
    }
    later = "Early stopping satisfied" in lines
    run = replace(run, system=_LATER if later else _V05)
    # A detailed log beside a file does not tell its parts apart.
    if run.source == file.place:
        run = _with_detail(tree, file, run)
    parameters: dict[str, Parameter] = {"scenario": scenario}
    for key in _PARAMETERS:
        if (number := finite_number(lines.get(key))) is not None:
            parameters[key] = int(number) if number.is_integer() else number
    validity, reason = _verdict(lines)
    run = replace(with_parameters(run, **parameters), validity=validity, reason=reason)
    define = partial(_quantity, definition=_LATER_DEFINITION if later else _V05)
    named = [name for name in headlines if name in stated] or list(headlines[:1])
    named += [name for name in _QUANTITIES if name in stated and name not in named]
    estimated = [
        it for it in stated if it.startswith("Early stopping ") and it.endswith(" estimate")
    ]
    share = _ESTIMATED.get(plain_scenario)
    if share and later and not any("token latency" in it.lower() for it in stated):
        # A run that was too short lacks the official estimate.
        estimated = list(dict.fromkeys([_ESTIMATE.format(share), *estimated]))
    for name in (*estimated, *named):
        yield run.result(define(name), stated.get(name), f"no {name}")
    for name in _LATENCIES:
        if positive_number(lines.get(name)) is not None:
            yield run.result(define(name), lines[name])


def _quantity(name: str, definition: str) -> Measure:
    """The measure that a summary names; latencies and their estimates are in nanoseconds."""
    if name in _QUANTITIES:
        rule = Aggregate.SINGLE if name == "Samples per query" else Aggregate.TOTAL
        return measure(name, _QUANTITIES[name], HIGHER, definition, rule)
    share = re.search(r"(?:^|stopping )(\d\d)th percentile", name)
    rule = _PERCENTILES.get(share[1], Aggregate.SINGLE) if share else Aggregate.SINGLE
    return measure(name, "ns", LOWER, definition, _LATENCIES.get(name, rule))


def _with_detail(tree: ResultTree, file: ResultFile, run: Run) -> Run:
    """``run`` with time and LoadGen's version, which only the detailed log beside a summary has."""
    place = join(dirname(file.place), _DETAIL)
    if place == file.place or place not in tree.in_folder(dirname(place)):
        return run
    try:
        detail = tree.file(place)
        text = detail.text
    except InvalidDocument:
        return run
    run = replace(run, files=run_of("", "", *run.files, detail.measured).files)
    entries = {}
    for match in _ENTRY.finditer(text):
        if '"test_datetime"' in match[1] or '"loadgen_version"' in match[1]:
            try:
                entry = orjson.loads(match[1])
            except orjson.JSONDecodeError:
                continue
            entries[entry.get("key")] = str(entry.get("value"))
    time = entries.get("test_datetime") or first_group(_OLD_TIME, text)
    run = replace(run, measured_at=time_of_text(time))
    version = entries.get("loadgen_version") or first_group(_OLD_VERSION, text)
    if not version:
        return run
    number = version.split()[0].lstrip("v")
    system = run.system if number.startswith((".5", "0.5")) else _LATER
    return replace(run, system=system, software={**run.software, "mlcommons-loadgen": number})


def _verdict(lines: Mapping[str, str]) -> tuple[Validity, str | None]:
    """LoadGen's verdict on the run, with the conditions that were not met."""
    verdict = lines.get("Result is", "").upper()
    errors = whole_number(lines.get(_ERRORS))
    logged = f"LoadGen logged {counted(errors, 'error')}" if errors else None
    if verdict == "VALID":
        return Validity.VALID, logged
    violated = [
        name.removesuffix(" satisfied").lower()
        for name, text in lines.items()
        if name.endswith(" satisfied") and text.upper().startswith("NO")
    ]
    if verdict == "INVALID":
        violation = f"LoadGen: {', '.join(violated) or 'INVALID'}"
        return Validity.INVALID, "; ".join(filter(None, (violation, logged)))
    return Validity.UNKNOWN, "; ".join(filter(None, ("the summary has no verdict", logged)))


def _console(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Lines that the reference application prints; their rates are not LoadGen's headlines."""
    each = partial(
        measure, definition="mlperf-inference-reference-application", aggregate=Aggregate.MEAN
    )
    of_file = file.run(_V05)
    for number, match in enumerate(_CONSOLE.finditer(file.text)):
        scenario, accuracy_run, rate, mean, accuracy, queries = match.groups()
        parameters: dict[str, Parameter] = {
            "scenario": scenario or accuracy_run, "queries": whole_number(queries) or 0,
            "mode": "performance" if accuracy is None else "accuracy",
        }  # fmt: skip
        run = replace(of_file, source=f"{file.place}#{number}", parameters=parameters)
        yield run.result(each("qps", "queries/s", HIGHER), rate)
        yield run.result(each("mean latency", "s", LOWER), mean)
        if accuracy is not None:
            yield run.result(each("accuracy", "%", HIGHER, zero_counts=True), accuracy)


def _described(tree: ResultTree, file: ResultFile) -> Run:
    """The fields of a result in its path and in the descriptions beside it."""
    parts = file.place.split("/")
    at = next((index for index, part in enumerate(parts) if part == "results"), None)
    run = file.run(_V05)
    if at is None or len(parts) < at + 5:
        return run
    submission, (machine, benchmark, scenario) = "/".join(parts[:at]), parts[at + 1 : at + 4]
    parameters: dict[str, Parameter] = {"scenario": scenario, "phase": "inference"}
    # The file of a description may spell the name of the machine a little differently.
    stems = {
        _letters(basename(it).removesuffix(".json")): it
        for it in reversed(tree.in_folder(join(submission, "systems")))
        if it.endswith(".json")
    }
    close = max((it for it in stems if _letters(machine).startswith(it)), key=len, default=None)
    description = None if close is None else tree.description(stems[close])
    if description is not None:
        system, described_by = description
        if isinstance(system.get("division"), str):
            parameters["division"] = system["division"]
        run = _with_machine(replace(run, files=[*run.files, described_by]), system)
    for place in tree.in_folder(join(submission, "measurements", machine, benchmark, scenario)):
        measured = tree.description(place) if place.endswith(".json") else None
        weights = measured[0].get("weight_data_types") if measured else None
        if isinstance(weights, str):
            parameters["precision"] = weights[:100]
            break
    return replace(run, benchmark=benchmark, parameters=parameters)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _with_machine(run: Run, system: Mapping[str, Any]) -> Run:
    names = {
        "cpu": "host_processor_model_name", "accelerator": "accelerator_model_name",
        "description": "system_name",
    }  # fmt: skip
    stated = stated_texts(None, **{key: system.get(name) for key, name in names.items()})
    parts = {key: text.strip() for key, text in stated.items()}
    # Other software that is only installed did not compute the result.
    texts = [
        system[it] for it in ("framework", "operating_system") if isinstance(system.get(it), str)
    ]
    return replace(
        run,
        hardware={key: it[:500] for key, it in parts.items() if it.lower() not in _NO_VALUE},
        accelerators=product_of(system.get("number_of_nodes"), system.get("accelerators_per_node")),
        software=software_versions(part for text in texts for part in text.split(",")),
    )
