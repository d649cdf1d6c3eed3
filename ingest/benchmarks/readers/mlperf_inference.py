"""MLPerf Inference: logs of LoadGen, accuracies, and lines of the reference application.

Layout: ``DIVISION/SUBMITTER/results/SYSTEM/BENCHMARK/SCENARIO/performance/run_N``, with the machine
in ``systems/SYSTEM.json``. Audit runs (``test_*``, ``TEST01``, ``audit``) are not submitted results
and are left out. In the scenario Server, the claimed value must hold in every run, so an entry has
their minimum.

The headlines of v0.5 changed later: a latency for Multi Stream instead of a number of streams, and
completed instead of scheduled samples for Server. Since v2.0 a run may stop early, and the estimate
of LoadGen is the official result of Single Stream and Multi Stream. The definition tells the two
apart. In v6.1, endpoints of language models have a ``report.txt`` instead of a
summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import basename, dirname, join
from typing import Any

import orjson

from ingest.benchmarks.result_tree import (
    ResultFile,
    ResultTree,
    missing_value,
    numbered_parts,
    results_of_parts,
    results_or_refusal,
)
from ingest.benchmarks.software import software_versions
from ingest.benchmarks.values import (
    finite_number,
    measured_or_failed,
    positive_number,
    time_of_text,
    whole_number,
)
from model.errors import InvalidDocument
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Parameter,
    Validity,
)
from model.text import counted

_V05 = "mlperf-inference-v0.5"
#: Logs of later versions say no version of the rules; LoadGen has a version of its own.
_LATER, _LATER_DEFINITION = "mlperf-inference", "mlperf-inference-early-stopping"
_SUMMARY_TITLE = "MLPerf Results Summary"
_ACCURACY = "accuracy.txt"
_DETAIL = "mlperf_log_detail.txt"
_LINE = re.compile(r"^[ \t]*([^\s:=][^:=\n]*?)[ \t]*:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_SAMPLES = ("samples/s", Direction.HIGHER, Aggregate.TOTAL)
_TOKENS = ("tokens/s", Direction.HIGHER, Aggregate.TOTAL)
#: Quantities that summaries name, apart from latencies.
_QUANTITIES = {
    "Samples per query": ("", Direction.HIGHER, Aggregate.SINGLE),
    "Scheduled samples per second": _SAMPLES, "Completed samples per second": _SAMPLES,
    "Samples per second": _SAMPLES, "Tokens per second": _TOKENS,
    "Completed tokens per second": _TOKENS,
}  # fmt: skip
_TARGET_LATENCIES = {
    "90th percentile latency (ns)": ("ns", Direction.LOWER, Aggregate.P90),
    "99th percentile latency (ns)": ("ns", Direction.LOWER, Aggregate.P99),
}
_TARGET_LATENCY = re.compile(r"(\d{1,2})(?:\.0)?th percentile latency \(ns\)")
_ESTIMATE = "Early stopping {}th percentile estimate"
_ESTIMATES = re.compile(
    r"Early stopping (\d{1,2}(?:\.[1-9]\d?)?)(?:\.0)?th percentile estimate:[ \t]*"
    r"(\d{1,18})(?![\w.,])"
)
#: Estimates below these titles are of the latencies of tokens.
_TOKEN_ESTIMATES = re.compile("TTFT Early Stopping Result|early_stopping_ttft_result")
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
_LATENCIES = {
    "Mean latency (ns)": Aggregate.MEAN,
    "50.00 percentile latency (ns)": Aggregate.P50,
    "90.00 percentile latency (ns)": Aggregate.P90,
    "99.00 percentile latency (ns)": Aggregate.P99,
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
#: Keys of the detailed log, and the lines of the summary that say the same.
_DETAILED = {
    "effective_scenario": "Scenario", "result_validity": "Result is",
    "result_samples_per_second": "Samples per second",
    "result_tokens_per_second": "Tokens per second",
    "result_scheduled_samples_per_sec": "Scheduled samples per second",
    "result_completed_samples_per_sec": "Completed samples per second",
    "result_completed_tokens_per_second": "Completed tokens per second",
    "result_mean_latency_ns": "Mean latency (ns)",
    **{
        f"result_{share}.00_percentile_latency_ns": f"{share}.00 percentile latency (ns)"
        for share in (50, 90, 99)
    },
    "result_perf_constraints_met": "Performance constraints satisfied",
    "result_min_duration_met": "Min duration satisfied",
    "result_min_queries_met": "Min queries satisfied",
    "early_stopping_met": "Early stopping satisfied",
    "effective_samples_per_query": "samples_per_query", "effective_target_qps": "target_qps",
    "effective_target_latency_ns": "target_latency (ns)",
    "effective_max_async_queries": "max_async_queries",
    "effective_min_duration_ms": "min_duration (ms)",
    "effective_min_query_count": "min_query_count",
    "effective_performance_sample_count": "performance_sample_count",
}  # fmt: skip
_ACCURACIES = (
    (re.compile(r"accuracy=([\d.]+)%"), "accuracy", "%"),
    (re.compile(r"mAP=([\d.]+)%"), "mAP", "%"),
    (re.compile(r"BLEU:?[ \t]*[=:]?[ \t]*([\d.]+)(?!\d|,\d)"), "BLEU", ""),
)
#: Accuracies of later tasks, which have several: question answering and summarisation.
_LATER_ACCURACIES = (
    (re.compile(r'"exact_match": ([\d.]+), "f1": ([\d.]+)'), ("exact_match", "f1"), "%"),
    (
        re.compile(r"'rouge1': '?([\d.]+)'?, 'rouge2': '?([\d.]+)'?, 'rougeL': '?([\d.]+)"),
        ("rouge1", "rouge2", "rougeL"),
        "",
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
_REPORT = re.compile(r"^(?=-+ Summary -+$)", re.MULTILINE)
_ISSUED = re.compile(r"^Total samples issued: (\d+)$", re.MULTILINE)
_FAILED = re.compile(r"^Total samples failed: (\d+)$", re.MULTILINE)
_LOAD = re.compile(r"^ +load_pattern: type=(\w+), target_qps=([\d.]+|None)", re.MULTILINE)
_RATES = (
    (re.compile(r"^QPS: *(\S*)$", re.MULTILINE), "QPS", "queries/s"),
    (re.compile(r"^TPS: *(\S*)$", re.MULTILINE), "TPS", "tokens/s"),
)
_ENDPOINTS = "mlperf-inference-endpoints-1"
#: Rates over the time in which samples were issued, and not up to the last answer.
_ENDPOINTS_ISSUING = "mlperf-inference-endpoints-issuing-1"
#: The mean and the percentiles; estimates of early stopping follow in a block of their own.
_REPORTED_LATENCY = re.compile(
    r"^(TTFT|TPOT|Latency):\n(?: .*\n){0,20}? +Avg\.: (?P<mean>\S+) ms\n(?:(?: .*)?\n){0,200}?"
    r" +Percentiles:\n(?P<percentiles>(?: +[\d.]+: \S+ ms\n)+)",
    re.MULTILINE,
)
_PERCENTILE = re.compile(r"^ +(\d\d)\.0: (\S+) ms$", re.MULTILINE)
_PERCENTILES = {"50": Aggregate.P50, "90": Aggregate.P90, "99": Aggregate.P99}
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
        for source, summary in numbered_parts(place, summaries):
            lines = dict(reversed(_LINE.findall(summary)))
            if errors := _COUNTED_ERRORS.search(summary):
                lines[_ERRORS] = errors[1]
            yield from _summary(tree, file, lines | _estimates(summary), source)
    elif _ISSUED.search(text):
        reports = [it for it in _REPORT.split(text) if _ISSUED.search(it)]
        yield from results_of_parts(
            place, reports, lambda report, source: _report(tree, file, report, source)
        )
    elif _ENTRY.search(text):
        beside = join(dirname(place), _DETAIL.replace("detail", "summary"))
        detailed = _detailed_lines(text)
        # A log of an accuracy run has no validity, and a summary beside the log says the same.
        if "Result is" in detailed and beside not in tree.in_folder(dirname(place)):
            yield from _summary(tree, file, detailed, place)
    elif _CONSOLE.search(text):
        yield from _console(file)
    elif basename(place) == _ACCURACY or _ACCURACIES[0][0].search(text):
        yield from _accuracy(tree, file)


def _estimates(text: str) -> dict[str, str]:
    """Latencies that LoadGen estimates because the run may have stopped early, by name."""
    if _TOKEN_ESTIMATES.search(text):
        return {}
    return {_ESTIMATE.format(share): value for share, value in _ESTIMATES.findall(text)}


def _detailed_lines(text: str) -> dict[str, str]:
    """Lines as a summary has them, of the detailed log."""
    lines: dict[str, str] = _estimates(text)
    errors = 0
    for match in _ENTRY.finditer(text):
        try:
            entry = orjson.loads(match[1])
        except orjson.JSONDecodeError:
            continue
        errors += '"is_error": true' in match[1]
        value, name = entry.get("value"), _DETAILED.get(str(entry.get("key")))
        if name is not None and value is not None:
            shown = "Yes" if value is True else "NO" if value is False else str(value)
            lines[name] = shown
    lines[_ERRORS] = str(errors)
    share = _ESTIMATED.get(lines.get("Scenario", "").lower())
    if share is not None and f"{share}.00 percentile latency (ns)" in lines:
        lines[f"{share}th percentile latency (ns)"] = lines[f"{share}.00 percentile latency (ns)"]
    return lines


def _claimed(folder: str, runs: Sequence[BenchmarkResult]) -> BenchmarkResult:
    """The entry of the scenario Server: the smallest value of its runs."""
    values = tuple(it.value for it in runs if it.value is not None)
    wrong = [it for it in runs if it.validity is not Validity.VALID]
    first = runs[0]
    return BenchmarkResult(
        system=first.system, source=folder, benchmark=first.benchmark, metric=first.metric,
        value=min(values, default=None), samples=values, aggregate=Aggregate.MINIMUM,
        parameters=first.parameters, validity=Validity.INVALID if wrong else Validity.VALID,
        reason=f"{len(wrong)} of {len(runs)} runs are not valid" if wrong
        else next((it.reason for it in runs if it.reason), None),
        hardware=first.hardware, accelerators=first.accelerators, software=first.software,
        files=tuple(file for run in runs for file in run.files),
    )  # fmt: skip


def _summary(
    tree: ResultTree, file: ResultFile, lines: Mapping[str, str], source: str
) -> Iterator[BenchmarkResult]:
    """Results of a summary.

    :param source: the file, or its part; a detailed log beside the file does not tell parts apart
    """
    scenario = lines.get("Scenario")
    if scenario is None:
        raise missing_value(file.place, "Scenario", "the summary names no scenario")
    plain_scenario = scenario.lower().replace(" ", "")
    headlines = _HEADLINES.get(plain_scenario)
    if headlines is None:
        raise missing_value(file.place, "Scenario", f"the scenario {scenario[:40]!r} is unknown")
    stated = {_normal_name(name): text for name, text in lines.items()}
    later = "Early stopping satisfied" in lines
    common = _described(tree, file)
    common["system"] = _LATER if later else _V05
    definition = _LATER_DEFINITION if later else _V05
    common["source"] = source
    if source == file.place:
        _add_detail(tree, file, common)
    parameters: dict[str, Parameter] = {**common["parameters"], "scenario": scenario}
    for key in _PARAMETERS:
        if (number := finite_number(lines.get(key))) is not None:
            parameters[key] = int(number) if number.is_integer() else number
    common["parameters"] = parameters
    validity, reason = _verdict(lines)
    named = [name for name in headlines if name in stated] or list(headlines[:1])
    named += [name for name in _QUANTITIES if name in stated and name not in named]
    quantities = _QUANTITIES | _TARGET_LATENCIES | _estimated(plain_scenario, stated, later=later)
    for name in (*(it for it in quantities if it.startswith("Early stopping ")), *named):
        unit, direction, rule = quantities[name]
        yield measured_or_failed(
            stated.get(name), f"no {name}", metric=Metric(name, unit, direction, definition),
            aggregate=rule, validity=validity, reason=reason, **common,
        )  # fmt: skip
    for name, rule in _LATENCIES.items():
        if positive_number(lines.get(name)) is not None:
            yield measured_or_failed(
                lines[name], metric=Metric(name, "ns", Direction.LOWER, definition), aggregate=rule,
                validity=validity, reason=reason, **common,
            )  # fmt: skip


def _estimated(
    scenario: str, stated: Mapping[str, str], *, later: bool
) -> dict[str, tuple[str, Direction, Aggregate]]:
    """Estimated latencies of a summary; a run that was too short lacks the official one."""
    names = [it for it in stated if it.startswith("Early stopping ") and it.endswith(" estimate")]
    share = _ESTIMATED.get(scenario)
    if share and later and not any("token latency" in it.lower() for it in stated):
        names = list(dict.fromkeys([_ESTIMATE.format(share), *names]))
    rules = {_ESTIMATE.format(share): rule for share, rule in _PERCENTILES.items()}
    return {it: ("ns", Direction.LOWER, rules.get(it, Aggregate.SINGLE)) for it in names}


def _report(
    tree: ResultTree, file: ResultFile, text: str, source: str
) -> Iterator[BenchmarkResult]:
    """Results of a report of an endpoint: rates, and latencies in milliseconds."""
    common = {**_described(tree, file), "system": _LATER, "source": source}
    issued, failed = _ISSUED.search(text), _FAILED.search(text)
    if failed and issued and int(failed[1]):
        common["reason"] = f"{failed[1]} of {issued[1]} samples failed"
    if load := _LOAD.search(text):
        stated: dict[str, Parameter] = {"load_pattern": load[1]}
        if (target := finite_number(load[2])) is not None:
            stated["target_qps"] = target
        common["parameters"] = {**common["parameters"], **stated}
    issuing = "use_legacy_loadgen_qps_metrics=True" in text
    definition = _ENDPOINTS_ISSUING if issuing else _ENDPOINTS
    for pattern, name, unit in _RATES:
        rate = pattern.search(text)
        if rate is not None or name == "QPS":
            yield measured_or_failed(
                rate[1] if rate else None, f"the report has no {name}",
                metric=Metric(name, unit, Direction.HIGHER, definition),
                aggregate=Aggregate.TOTAL, **common,
            )  # fmt: skip
    for match in _REPORTED_LATENCY.finditer(text):
        percentiles = dict(_PERCENTILE.findall(match["percentiles"]))
        values = {Aggregate.MEAN: match["mean"]} | {
            rule: percentiles[share] for share, rule in _PERCENTILES.items() if share in percentiles
        }
        for rule, value in values.items():
            name = f"{match[1].lower()}_{rule}"
            yield measured_or_failed(
                value, metric=Metric(name, "ms", Direction.LOWER, _ENDPOINTS), aggregate=rule,
                **common,
            )  # fmt: skip


def _normal_name(name: str) -> str:
    """The name of a quantity; LoadGen wrote ``90th`` and later ``90.0th``."""
    match = _TARGET_LATENCY.fullmatch(name)
    return f"{match[1]}th percentile latency (ns)" if match else name


def _add_detail(tree: ResultTree, file: ResultFile, common: dict[str, Any]) -> None:
    """Add what only the detailed log beside a summary says: the time, and LoadGen's version."""
    place = join(dirname(file.place), _DETAIL)
    if place == file.place:
        text = file.text
    elif place in tree.in_folder(dirname(place)):
        try:
            detail = tree.file(place)
            text = detail.text
        except InvalidDocument:
            return
        common["files"] = sorted([*common["files"], detail.measured], key=lambda it: it.place)
    else:
        return
    entries = {}
    for match in _ENTRY.finditer(text):
        if '"test_datetime"' in match[1] or '"loadgen_version"' in match[1]:
            try:
                entry = orjson.loads(match[1])
            except orjson.JSONDecodeError:
                continue
            entries[entry.get("key")] = str(entry.get("value"))
    old_time, old_version = _OLD_TIME.search(text), _OLD_VERSION.search(text)
    common["measured_at"] = time_of_text(
        entries.get("test_datetime") or (old_time[1] if old_time else "")
    )
    version = entries.get("loadgen_version") or (old_version[1] if old_version else "")
    if version:
        number = version.split()[0].lstrip("v")
        common["software"] = {**common.get("software", {}), "mlcommons-loadgen": number}
        if not number.startswith((".5", "0.5")):
            common["system"] = _LATER


def _verdict(lines: Mapping[str, str]) -> tuple[Validity, str | None]:
    """What LoadGen says of the run, with the conditions that were not met."""
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


def _accuracy(tree: ResultTree, file: ResultFile) -> Iterator[BenchmarkResult]:
    for pattern, name, unit in _ACCURACIES:
        matches = pattern.findall(file.text)
        if matches:
            yield measured_or_failed(
                matches[-1], zero_counts=True,
                metric=Metric(name, unit, Direction.HIGHER, _V05),
                aggregate=Aggregate.SINGLE, **_described(tree, file),
            )  # fmt: skip
            return
    for pattern, names, unit in _LATER_ACCURACIES:
        scores = pattern.findall(file.text)
        if scores:
            common = {**_described(tree, file), "system": _LATER}
            for name, value in zip(names, scores[-1], strict=True):
                yield measured_or_failed(
                    value, zero_counts=True, metric=Metric(name, unit, Direction.HIGHER, _LATER),
                    aggregate=Aggregate.SINGLE, **common,
                )  # fmt: skip
            return
    raise missing_value(file.place, "accuracy", "no accuracy, mAP, BLEU, F1 or ROUGE")


def _console(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Lines that the reference application prints; their rates are not LoadGen's headlines."""
    files = (file.measured,)
    for number, match in enumerate(_CONSOLE.finditer(file.text)):
        scenario, accuracy_run, rate, mean, accuracy, queries = match.groups()
        parameters: dict[str, Parameter] = {
            "scenario": scenario or accuracy_run, "queries": whole_number(queries) or 0,
            "mode": "performance" if accuracy is None else "accuracy",
        }  # fmt: skip
        values = [
            ("qps", "queries/s", Direction.HIGHER, rate),
            ("mean latency", "s", Direction.LOWER, mean),
        ]
        if accuracy is not None:
            values.append(("accuracy", "%", Direction.HIGHER, accuracy))
        for name, unit, direction, value in values:
            yield measured_or_failed(
                value, zero_counts=name == "accuracy", system=_V05,
                source=f"{file.place}#{number}", benchmark="unknown",
                metric=Metric(name, unit, direction, "mlperf-inference-reference-application"),
                aggregate=Aggregate.MEAN, parameters=parameters, files=files,
            )  # fmt: skip


def _described(tree: ResultTree, file: ResultFile) -> dict[str, Any]:
    """Everything that the path and the descriptions beside it say about a result."""
    parts = file.place.split("/")
    at = next((index for index, part in enumerate(parts) if part == "results"), None)
    files: list[MeasuredFile] = [file.measured]
    common: dict[str, Any] = {
        "system": _V05, "source": file.place, "benchmark": "unknown", "parameters": {},
        "files": files,
    }  # fmt: skip
    if at is None or len(parts) < at + 5:
        return common
    submission, (machine, benchmark, scenario) = "/".join(parts[:at]), parts[at + 1 : at + 4]
    common["benchmark"] = benchmark
    parameters: dict[str, Parameter] = {"scenario": scenario, "phase": "inference"}
    place = _machine_place(tree, join(submission, "systems"), machine)
    description = None if place is None else tree.description(place)
    if description is not None:
        system, described_by = description
        files.append(described_by)
        if isinstance(system.get("division"), str):
            parameters["division"] = system["division"]
        common.update(_of_machine(system))
    precision = _precision(tree, join(submission, "measurements", machine, benchmark, scenario))
    if precision is not None:
        parameters["precision"] = precision
    common["parameters"] = parameters
    return common


def _machine_place(tree: ResultTree, folder: str, name: str) -> str | None:
    """The description of a machine; its file may spell the name a little differently."""
    wanted = _letters(name)
    stems = {
        place: _letters(basename(place).removesuffix(".json"))
        for place in tree.in_folder(folder)
        if place.endswith(".json")
    }
    close = [place for place, stem in stems.items() if wanted.startswith(stem)]
    return max(close, key=lambda place: len(stems[place]), default=None)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _of_machine(system: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "cpu": "host_processor_model_name", "accelerator": "accelerator_model_name",
        "description": "system_name",
    }  # fmt: skip
    hardware = {
        key: text.strip()[:500]
        for key, name in names.items()
        if isinstance(text := system.get(name), str) and text.strip().lower() not in _NO_VALUE
    }
    nodes = whole_number(system.get("number_of_nodes"))
    each = whole_number(system.get("accelerators_per_node"))
    # Other software that is only installed did not compute the result.
    texts = [
        system[it] for it in ("framework", "operating_system") if isinstance(system.get(it), str)
    ]
    return {
        "hardware": hardware,
        "accelerators": None if nodes is None or each is None else nodes * each,
        "software": software_versions(part for text in texts for part in text.split(",")),
    }


def _precision(tree: ResultTree, folder: str) -> str | None:
    """Type of the weights, from the description of the measurement."""
    for place in tree.in_folder(folder):
        description = tree.description(place) if place.endswith(".json") else None
        if description is not None and isinstance(description[0].get("weight_data_types"), str):
            return str(description[0]["weight_data_types"])[:100]
    return None
