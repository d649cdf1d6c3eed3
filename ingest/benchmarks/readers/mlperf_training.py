"""MLPerf Training: minutes from ``run_start`` to ``run_stop``.

A folder with ``result_N.txt`` is an entry; its score is the olympic mean of all runs, aborted runs
included, as in the published tables. In a folder without such names, all logs of a benchmark
are an entry. The machine is described in ``systems/SYSTEM.json`` (v0.6), in ``entry.json`` beside
the benchmark's folder (v0.5), or in the log. A log may have several runs. Since v0.7, lines have
JSON with milliseconds, and do not say the version of the rules.
"""

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename, dirname, join
from typing import Any

import orjson

from ingest.benchmarks.result_tree import ResultTree, results_or_refusal
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    finite_number,
    mapping_of,
    measure,
    product_of,
    run_of,
    software_versions,
    stated_texts,
    time_of_epoch,
)
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    MeasuredFile,
    Parameter,
    Validity,
    olympic_mean,
)

_LINE_V6 = re.compile(r":::MLL ([0-9.e+]+) ([A-Za-z_0-9]+): (.*)$", re.MULTILINE)
_LINE_V7 = re.compile(r":::MLLOG (\{.*\})[ \t]*$", re.MULTILINE)
_LINE_V5 = re.compile(
    r":::MLPv0\.5\.0 (\w+) ([0-9.e+]+) \([^)\n]*\) ([A-Za-z_0-9]+)(?:: (.*))?$", re.MULTILINE
)
_RUN = re.compile(r"result_\d+\.txt\Z")
#: Keys of log lines that are parameters of the benchmark.
_PARAMETERS = (
    "global_batch_size", "opt_name", "opt_base_learning_rate", "eval_target", "quality_target",
)  # fmt: skip
#: Keys of a description that name software.
_SOFTWARE = ("framework", "libraries", "ml_libraries", "os", "operating_system")
#: Benchmarks whose ``eval_accuracy`` is a loss, a perplexity or a rate of errors.
_JUDGED_BY_LOSS = ("gpt3", "llama", "rnnt", "flux")
_NO_VALUE = frozenset({"", "-", "na", "n/a", "none", "not public"})
#: Keys of a description that name the parts of the machine.
_PARTS = {
    "cpu": "host_processor_model_name", "accelerator": "accelerator_model_name",
    "description": "system_name",
}  # fmt: skip

#: Seconds since 1970, key and value of a line.
_Line = tuple[float | None, str, Any]


@dataclass(slots=True)
class _Training:
    """The content of the log of one run.

    :param version: of the rules, such as ``v0.6``; ``None`` if the log does not say
    :param seconds: from the first start to the last stop; ``None`` if the log lacks either
    :param success: whether the run reached its target; ``None`` if the log does not say
    """

    version: str | None
    benchmark: str | None = None
    began: float | None = None
    stopped: float | None = None
    success: bool | None = None
    accuracy: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    score_s: float | None = None

    @property
    def system(self) -> str:
        """Key of the system, with the version of the rules."""
        return f"mlperf-training-{self.version}" if self.version else "mlperf-training"

    @property
    def seconds(self) -> float | None:
        """Duration; MiniGo v0.6 logs it in the metadata of its last evaluation."""
        if self.score_s is not None and self.facts.get("submission_benchmark") == "minigo":
            return self.score_s
        if self.began is None or self.stopped is None or self.stopped < self.began:
            return None
        return self.stopped - self.began


def read(tree: ResultTree, places: Sequence[str]) -> Iterator[BenchmarkResult | InvalidDocument]:
    """One result for each folder of runs, and the final accuracy of its runs."""
    folders: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for place in places:
        named = _RUN.search(basename(place))
        if named or not place.endswith(".json"):
            (folders if named else others).setdefault(dirname(place), []).append(place)
    for folder, named_runs in folders.items():
        source = folder if folder or len(named_runs) > 1 else named_runs[0]
        yield from results_or_refusal(_entry(tree, folder, named_runs, source), source)
    for folder, logs in others.items():
        if folder not in folders:
            for benchmark, runs in _runs_by_benchmark(tree, logs).items():
                place = folder if len(runs) > 1 else runs[0]
                results = _entry(tree, folder, runs, place, benchmark)
                yield from results_or_refusal(results, place)


def _runs_by_benchmark(tree: ResultTree, places: Sequence[str]) -> dict[str, list[str]]:
    """The logs with complete runs among ``places``, by benchmark."""
    logs: dict[str, list[str]] = {}
    for place in places:
        try:
            runs = _runs_of(tree.file(place).text)
        except InvalidDocument:
            continue
        for name in dict.fromkeys(_benchmark(it, "") for it in runs if it.seconds is not None):
            logs.setdefault(name, []).append(place)
    return logs


def _entry(
    tree: ResultTree, folder: str, places: Sequence[str], source: str, benchmark: str | None = None
) -> Iterator[BenchmarkResult]:
    """Results of all runs in ``places``.

    :param benchmark: leaves out the runs of other benchmarks
    """
    runs: list[_Training] = []
    files: list[MeasuredFile] = []
    logs = 0
    for place in places:
        file = tree.file(place)
        files.append(file.measured)
        of_log = _runs_of(file.text)
        if benchmark is not None:
            of_log = [it for it in of_log if _benchmark(it, "") == benchmark]
        runs += of_log
        logs += len(of_log) or 1
    if not runs:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA,
            "these logs have no lines of the standard form (:::MLLOG, :::MLL or :::MLPv0.5.0)",
        )
    first = runs[0]
    description, described = _description(tree, folder, first)
    run = run_of(first.system, source, *files, *filter(None, (described,)))
    run = _described(run, first, description)
    run = replace(run, benchmark=_benchmark(first, basename(folder) or "unknown"))
    minutes = [it.seconds / 60 for it in runs if it.seconds is not None]
    failed = sum(it.success is False for it in runs)
    validity, reason = _validity(runs, logs)
    if not minutes:
        validity, reason = Validity.FAILED, "no run has both run_start and run_stop"
    scores = {("time_to_train_olympic_mean", "minutes"): minutes}
    # The score in hours of one accelerator, where the number of accelerators is known.
    if minutes and (count := run.accelerators):
        scores["accelerator_hours", "hours"] = [it * count / 60 for it in minutes]
    for (name, unit), samples in scores.items():
        score = measure(name, unit, LOWER, first.system, Aggregate.OLYMPIC_MEAN)
        value = olympic_mean(samples) if samples else None
        yield run.stated(score, value, samples=tuple(samples), validity=validity, reason=reason)
    accuracies = tuple(it.accuracy for it in runs if it.accuracy is not None)
    if accuracies:
        direction = LOWER if run.benchmark.startswith(_JUDGED_BY_LOSS) else HIGHER
        yield run.stated(
            measure("eval_accuracy", "", direction, first.system, Aggregate.MEDIAN),
            sorted(accuracies)[len(accuracies) // 2],
            samples=accuracies,
            reason=f"{failed} runs missed the target" if failed else None,
        )


def _validity(runs: Sequence[_Training], logs: int) -> tuple[Validity, str | None]:
    missing = logs - sum(it.seconds is not None for it in runs)
    failed = sum(it.success is False for it in runs)
    silent = sum(it.success is None for it in runs)
    flaws = (
        (missing, "runs have no duration"),
        (failed, "runs did not reach the target"),
        (silent, "logs do not say whether the target was reached"),
    )
    reason = "; ".join(f"{count} of {logs} {flaw}" for count, flaw in flaws if count)
    return (Validity.UNKNOWN, reason) if reason else (Validity.VALID, None)


def _runs_of(text: str) -> list[_Training]:
    """The runs of a log; empty if no line has a known form.

    Processes repeat lines: the first start and the last stop of a run count.
    """
    text = text.replace(":::MLL", "\n:::MLL")  # processes may write into one line
    v6 = [
        (finite_number(match[1]), match[2], _payload(match[3])) for match in _LINE_V6.finditer(text)
    ]
    if v6:
        return [_run_of("v0.6", lines, _take_v6) for lines in _by_run(v6)]
    v7: list[_Line] = []
    for match in _LINE_V7.finditer(text):
        entry = _payload(match[1])
        if isinstance(entry, dict):
            at = finite_number(entry.get("time_ms"))
            v7.append((None if at is None else at / 1000, str(entry.get("key")), entry))
    if v7:
        return [_run_of(None, lines, _take_v6) for lines in _by_run(v7)]
    v5 = [(finite_number(it[2]), it[3], (it[1], _payload(it[4]))) for it in _LINE_V5.finditer(text)]
    return [_run_of("v0.5", lines, _take_v5) for lines in _by_run(v5)]


def _run_of(
    version: str | None, lines: Sequence[_Line], take: Callable[[_Training, str, Any], None]
) -> _Training:
    run = _Training(version)
    for at, key, payload in lines:
        if key == "run_start" and run.began is None:
            run.began = at
        elif key == "run_stop":
            run.stopped = at
        take(run, key, payload)
    return run


def _by_run(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """The lines of each run. A start after the last stop begins another run, and the lines between
    them belong to that run.

    Lines are read in order of time, because a log may have its runs, or the lines of several
    processes, in another order.
    """
    run: list[_Line] = []
    stop, stopped_at = 0, math.inf
    times: list[float] = []
    for at, _, _ in lines:  # one without a time stays behind the line before it
        times.append(at or (times[-1] if times else 0.0))
    in_order = sorted(range(len(lines)), key=times.__getitem__)
    for at, key, payload in (lines[it] for it in in_order):
        if key == "run_start" and at is not None and at >= stopped_at:
            yield run[:stop]
            run = run[stop:]
            stopped_at = math.inf
        run.append((at, key, payload))
        if key == "run_stop" and at is not None:
            stop, stopped_at = len(run), at
    if run:
        yield run


def _payload(text: str | None) -> Any:
    """The value behind a key: JSON, a Python literal as some logs have it, or plain text."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return ast.literal_eval(text.strip()[:10_000])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text.strip()


def _take_v6(run: _Training, key: str, payload: Any) -> None:
    record = payload if isinstance(payload, dict) else {"value": payload}
    metadata, value = mapping_of(record, "metadata"), record.get("value")
    if key == "run_stop":
        run.success = metadata.get("status") == "success"
    elif key in ("eval_accuracy", "eval_result"):
        # Stable Diffusion logs two values under this key, the FID and the CLIP score.
        if "metric" not in metadata:
            run.accuracy = _or_before(value, run.accuracy)
        run.score_s = _or_before(metadata.get("timestamp"), run.score_s)
    elif key == "submission_benchmark" or key in _PARAMETERS or key.startswith("submission_"):
        run.facts.setdefault(key, value)


def _or_before(value: object, before: float | None) -> float | None:
    """``value`` if it is a number, else the previous value."""
    number = finite_number(value)
    return before if number is None else number


def _take_v5(run: _Training, key: str, named: tuple[str, Any]) -> None:
    """Add a line of v0.5, which names the benchmark."""
    benchmark, payload = named
    run.benchmark = run.benchmark or benchmark
    if key == "run_stop":
        if isinstance(payload, bool | str):
            payload = {"success": payload}
        if isinstance(payload, dict) and "success" in payload:
            run.success = str(payload["success"]).lower() == "true"
    elif key == "eval_accuracy" and isinstance(payload, dict):
        run.accuracy = _or_before(payload.get("value"), run.accuracy)
    elif key in _PARAMETERS or key == "input_batch_size":
        run.facts.setdefault(key, payload)


def _description(
    tree: ResultTree, folder: str, run: _Training
) -> tuple[dict[str, Any], MeasuredFile | None]:
    """Return the description of the machine and its file, or the description in the log."""
    system = dirname(folder)
    for place in (
        join(dirname(dirname(system)), "systems", f"{basename(system)}.json"),
        join(system, "entry.json"),
        join(folder, "entry.json"),
    ):
        if (description := tree.description(place)) is not None:
            return description
    return _submitted(run.facts.get("submission_entry")), None


def _submitted(entry: object) -> dict[str, Any]:
    """The description in a log, a Python dictionary of texts; empty if the log has none."""
    stated = _literal(entry)
    if not isinstance(stated, dict):
        return {}
    description = {str(key): _literal(it) for key, it in stated.items()}
    if isinstance(description.get("nodes"), dict):
        description["nodes"] = [description["nodes"]]
    libraries = description.get("libraries")
    if isinstance(libraries, dict):
        description["libraries"] = ", ".join(f"{name} {it}" for name, it in libraries.items())
    return description


def _literal(value: object) -> object:
    """The dictionary that a text states, or the value itself."""
    return _payload(value) if isinstance(value, str) and value.startswith("{") else value


def _benchmark(run: _Training, otherwise: str) -> str:
    return str(run.benchmark or run.facts.get("submission_benchmark") or otherwise)


def _described(run: Run, training: _Training, description: Mapping[str, Any]) -> Run:
    parameters: dict[str, Parameter] = {"phase": "training"}
    division = training.facts.get("submission_division") or description.get("division")
    if isinstance(division, str):
        parameters["division"] = division
    for key in (*_PARAMETERS, "input_batch_size"):
        if isinstance(value := training.facts.get(key), str | int | float):
            parameters[key] = value
    hardware, accelerators = _hardware(description)
    texts = [description.get(key) for key in _SOFTWARE]
    parts = [part for text in texts if isinstance(text, str) for part in re.split(r"[,/;]", text)]
    return replace(
        run,
        parameters=parameters,
        hardware=hardware,
        accelerators=accelerators,
        # Without commit hashes, and without underscores that stand for spaces.
        software=software_versions(
            it.split("commit")[0].replace("_version", "").replace("_", " ").strip() for it in parts
        ),
        measured_at=time_of_epoch(training.began),
    )


def _hardware(description: Mapping[str, Any]) -> tuple[dict[str, str], int | None]:
    """Parts of the machine, and the number of accelerators of all nodes."""
    nodes = description.get("nodes")
    names: dict[str, Any] = {part: description.get(key) for part, key in _PARTS.items()}
    total = product_of(description.get("number_of_nodes"), description.get("accelerators_per_node"))
    if isinstance(nodes, list) and nodes and isinstance(nodes[0], dict):
        parts = {part: nodes[0].get(part) for part in ("cpu", "accelerator")}
        names = {**parts, "description": description.get("hardware")}
        each = [it for it in nodes if isinstance(it, dict)]
        counts = [product_of(it.get("num_nodes"), it.get("num_accelerators")) for it in each]
        known = [it for it in counts if it is not None]
        total = sum(known) if len(known) == len(counts) else None
    return {
        key: text
        for key, text in stated_texts(500, **names).items()
        if text.strip().lower() not in _NO_VALUE
    }, total
