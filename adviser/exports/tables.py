"""The tables of an export: their columns with types, units and meanings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from adviser.exports.verdicts import exported_verdicts
from graph.record.exported_rows import (
    RowSet,
    exported_advice,
    exported_advisories,
    exported_advisory_archives,
    exported_advisory_packages,
    exported_benchmarks,
    exported_hardware,
    exported_inspections,
    exported_observations,
    exported_releases,
    exported_samples,
    exported_stacks,
    exported_vulnerabilities,
)


class ColumnType(StrEnum):
    """Type of the values of a column; every column may contain null."""

    TEXT = "text"
    #: Text with few distinct values, stored as a dictionary.
    CATEGORY = "category"
    #: Time in UTC, with microseconds.
    TIME = "time"
    REAL = "real"
    INTEGER = "integer"
    FLAG = "flag"
    TEXTS = "list of texts"
    REALS = "list of reals"
    #: A JSON object or array as text.
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column of an exported table.

    :param unit: of its values, such as ``s``; empty for a number without unit
    """

    name: str
    type: ColumnType
    description: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table of an export.

    :param rows: reads the rows; the connection must stay open while they are read
    """

    name: str
    description: str
    columns: tuple[ExportColumn, ...]
    rows: Callable[[Connection], Iterator[RowSet]]


def _text(name: str, description: str) -> ExportColumn:
    return ExportColumn(name, ColumnType.TEXT, description)


def _category(name: str, description: str) -> ExportColumn:
    return ExportColumn(name, ColumnType.CATEGORY, description)


def _time(name: str, description: str) -> ExportColumn:
    return ExportColumn(name, ColumnType.TIME, description)


def _real(name: str, description: str, unit: str = "") -> ExportColumn:
    return ExportColumn(name, ColumnType.REAL, description, unit)


def _integer(name: str, description: str, unit: str = "") -> ExportColumn:
    return ExportColumn(name, ColumnType.INTEGER, description, unit)


def _flag(name: str, description: str) -> ExportColumn:
    return ExportColumn(name, ColumnType.FLAG, description)


def _texts(name: str, description: str) -> ExportColumn:
    return ExportColumn(name, ColumnType.TEXTS, description)


def _json(name: str, description: str) -> ExportColumn:
    return ExportColumn(name, ColumnType.JSON, description)


_DOCUMENT = _text("document_id", "Digest of the document that the row comes from.")
_STACK = _text("stack_digest", "Digest of the stack; null if it is unknown.")
_INDICATOR = _category("indicator", "Name of the performance indicator.")
_SCRIPT = _text("script_sha256", "SHA-256 of the indicator's script.")
_COMPARISON_KEY = _text("comparison_key", "Key that comparable observations share.")
_PARAMETERS = _json("parameters", "Parameters of the indicator.")
_DEVICE = _category("device", "Device that the indicator ran on.")
_PYTHON = _category("python_version", "Version of Python.")
_INDEX = _category("index", "Name of the package index.")
_HARDWARE = (
    _category("hardware_digest", "Digest of the hardware class."),
    _category("hardware", "Name of the hardware class for people."),
)
_RATE_UNIT = _category("unit", "Unit of the rates of this row.")
#: Unit of a column whose unit is in the column ``unit``.
_OF_ROW = "see column unit"

_INSPECTIONS = ExportTable(
    "inspections",
    "One row for each inspection: a stack that was built and measured by a number of jobs.",
    (
        _DOCUMENT,
        _text("name", "Name in the document."),
        _category("schema_version", "Schema version of the document."),
        _category("collector", "Program that made the document."),
        _STACK,
        _text("stack_note", "Why the stack is unknown, or what of its lock was left out."),
        _integer("job_count", "Number of jobs."),
        _time("created_at", "When the inspection was made, if the document says so."),
        _time("ingested_at", "When the document was ingested."),
    ),
    exported_inspections,
)
_OBSERVATIONS = ExportTable(
    "observations",
    "One row for each result of a job, in a folder for each indicator.",
    (
        _text("observation_id", "Identifier of the observation."),
        _DOCUMENT,
        _text("job_id", "Identifier of the job."),
        _integer("position", "Position within the inspection, from 0."),
        _category("outcome", "How the job ended."),
        _integer("exit_code", "Exit code of the indicator."),
        _INDICATOR,
        _category("component", "Library that the indicator measures."),
        _SCRIPT,
        _STACK,
        *_HARDWARE,
        _category("os_name", "Operating system."),
        _category("os_version", "Version of the operating system."),
        _PYTHON,
        _category("cuda_version", "Version of CUDA."),
        _COMPARISON_KEY,
        _PARAMETERS,
        _DEVICE,
        _real("elapsed_s", "Duration of one measured call.", "s"),
        _real("rate", "Measured rate; null unless the outcome is measured.", _OF_ROW),
        _real("reported_rate", "Rate in the document, before any correction.", _OF_ROW),
        _RATE_UNIT,
        _category("correction", "How a rate with a wrong definition was corrected."),
        _category("quarantine_reason", "Why no comparison uses the observation."),
        _category("unstable_reason", "Why comparisons leave the job out as unstable."),
        _category("failure_reason", "Why the build failed or the host ended the job, as a code."),
        _text("host", "Digest of the machine within its hardware class."),
        _text("block", "Block of jobs that ran in turns."),
        _integer("turn", "Position within the block."),
        _real("steal_share", "Share of processor time that the hypervisor took."),
        _time("started_at", "When the job started."),
        _time("ended_at", "When the job ended."),
        _integer("memory_bytes", "Peak memory of the job.", "B"),
        _real("user_s", "Processor time in user mode.", "s"),
        _real("system_s", "Processor time in the kernel.", "s"),
        _real("spread", "Median absolute deviation of the repetitions over their median."),
        _integer("minor_faults", "Page faults without input or output."),
        _integer("major_faults", "Page faults with input or output."),
        _integer("voluntary_switches", "Voluntary context switches."),
        _integer("involuntary_switches", "Involuntary context switches."),
        _integer("blocks_read", "Blocks read from disk."),
        _integer("blocks_written", "Blocks written to disk."),
        _flag("throttled", "Whether heat or a quota slowed the job down."),
        _flag("swapped", "Whether memory was swapped."),
        _real("load", "Load average of the minute before the job."),
        _category("launcher", "What started the job."),
        _integer("threads", "Threads that the library used, or else that were requested."),
        _category("blas", "Linear algebra library and its kernels."),
        _real("tick_share", "Smallest step of the clock over the time of a repetition."),
    ),
    exported_observations,
)
_SAMPLES = ExportTable(
    "samples",
    "One row for each repetition of an observation, in a folder for each indicator.",
    (
        _text("observation_id", "Identifier of the observation."),
        _DOCUMENT,
        _INDICATOR,
        _category("comparison_key", "Key that comparable observations share."),
        _integer("repetition", "Position within the job, from 0."),
        _real("duration_s", "Duration of the repetition.", "s"),
    ),
    exported_samples,
)
_HARDWARE_CLASSES = ExportTable(
    "hardware",
    "One row for each hardware class: machines whose measurements may be compared.",
    (
        *_HARDWARE,
        _text("document_id", "Digest of the first document that described the class."),
        _json("identity", "Properties of the class, which make its digest."),
    ),
    exported_hardware,
)
_STACKS = ExportTable(
    "stacks",
    "One row for each package of each measured stack.",
    (
        _category("stack_digest", "Digest of the stack."),
        _category("document_id", "Digest of the first document that contained the stack."),
        _integer("package_count", "Number of packages in the stack."),
        _text("purl", "Package URL of the package version."),
        _category("name", "Normalised name of the package."),
        _text("version", "Normalised version."),
        _INDEX,
    ),
    exported_stacks,
)
_RELEASES = ExportTable(
    "releases",
    "One row for each known release of a package, in a folder for each index.",
    (
        _text("purl", "Package URL."),
        _DOCUMENT,
        _category("name", "Normalised name of the package."),
        _text("version", "Normalised version."),
        _INDEX,
        _category("state", "What is known about the release."),
        _category("problem", "Why its metadata is not known, as a code."),
        _text("requires_python", "Specifier of supported Python versions."),
        _texts("extras", "Extras that it provides."),
        _text("license", "License in its metadata."),
        _flag("yanked", "Whether the release is yanked."),
        _text("yanked_reason", "Why its publisher yanked it, if the index says so."),
        _time("uploaded_at", "When its first file was uploaded."),
        _category("metadata_source", "How its requirements were read."),
        _texts("wheels", "Tag sets of its wheels."),
        _flag("has_sdist", "Whether there is a source distribution."),
        _flag("files_complete", "Whether all of its files are known."),
        _texts("imports", "Names that it makes importable; null if unknown."),
        _time("read_at", "When an index last served it."),
        _texts("requirements", "Its requirements, in the order of its metadata."),
        _texts("vulnerabilities", "Identifiers of the vulnerabilities that affect it."),
    ),
    exported_releases,
)
_ADVISORIES = ExportTable(
    "advisories",
    "One row for each advisory.",
    (
        _text("advisory_id", "Identifier of the advisory."),
        _DOCUMENT,
        _text("vulnerability_id", "Main identifier of its vulnerability."),
        _texts("aliases", "Other identifiers in the advisory."),
        _text("summary", "Summary in one line."),
        _category("severity", "Severity."),
        _real("score", "CVSS base score, 0 to 10."),
        _text("vector", "CVSS vector of the score."),
        _time("published_at", "When it was published."),
        _time("modified_at", "When it last changed."),
        _time("withdrawn_at", "When it was withdrawn; null if it holds."),
        _texts("affected", "Package URLs of the known releases that its vulnerability affects."),
    ),
    exported_advisories,
)
_ADVISORY_PACKAGES = ExportTable(
    "advisory_packages",
    "One row for each package that an advisory affects.",
    (
        _text("advisory_id", "Identifier of the advisory."),
        _DOCUMENT,
        _integer("position", "Position within the advisory, from 0."),
        _category("name", "Normalised name of the package."),
        _json(
            "ranges",
            "Affected ranges as in OSV: an array for each, with events such as"
            ' {"introduced": "1.0"} and {"fixed": "1.2"}.',
        ),
        _texts("versions", "Affected versions beside those in a range."),
    ),
    exported_advisory_packages,
)
_ADVISORY_ARCHIVES = ExportTable(
    "advisory_archives",
    "One row for each archive of advisories that was read completely.",
    (
        _text("sha256", "SHA-256 of the archive."),
        _integer("advisories", "Number of advisories in it."),
        _time("read_at", "When it was last read."),
    ),
    exported_advisory_archives,
)
_VULNERABILITIES = ExportTable(
    "vulnerabilities",
    "One row for each vulnerability, merged from the advisories that are aliases.",
    (
        _text("vulnerability_id", "Main identifier of the vulnerability."),
        _text("document_id", "Digest of the advisory with the main identifier."),
        _texts("aliases", "All its identifiers, with the main one."),
        _text("summary", "Summary in one line."),
        _category("severity", "Worst severity of its advisories; null if none is rated."),
        _real("score", "CVSS base score, 0 to 10."),
        _text("vector", "CVSS vector of the score."),
        _time("published_at", "When it was first published."),
        _time("modified_at", "When one of its advisories last changed."),
        _time("withdrawn_at", "When all its advisories were withdrawn; null if one holds."),
    ),
    exported_vulnerabilities,
)
_BENCHMARKS = ExportTable(
    "benchmarks",
    "One row for each result of another benchmark system, and of our own inspections in the same"
    " form (system thoth), in a folder for each system.",
    (
        _text("document_id", "Digest of the inspection, or of the files and what they share."),
        _integer("position", "Position within the document."),
        _category("system", "Key of the benchmark system."),
        _text("source", "Path of the file or folder inside the delivery."),
        _category("benchmark", "Task, model or operation."),
        _json("parameters", "Parameters of the benchmark."),
        _category("metric", "Name of the metric."),
        _category("unit", "Unit of the value and the samples."),
        _category("direction", "Which values are better: higher or lower."),
        _category("definition", "Definition of the metric; only equal ones are comparable."),
        _real("value", "The value; null if nothing was measured.", _OF_ROW),
        ExportColumn("samples", ColumnType.REALS, "All samples behind the value.", _OF_ROW),
        _category("aggregate", "How the value follows from the samples."),
        _category("validity", "Whether the result counts by the rules of its system."),
        _text("reason", "Why it is not valid, or which of its runs failed."),
        _json("hardware", "Names of the parts of the machine."),
        _integer("accelerators", "Number of accelerators."),
        _json("software", "Versions of software by name."),
        _time("measured_at", "Start of the measurement."),
        _texts("file_sha256", "SHA-256 of each file that it was read from."),
    ),
    exported_benchmarks,
)
_ADVICE = ExportTable(
    "advice",
    "One row for each recommended stack of an advice; one row with null if there is none.",
    (
        _text("advice_digest", "Digest of the identifier of the advice."),
        _text("document_id", "Digest of the report."),
        _category("recommendation_type", "Recommendation type of the request."),
        _category("status", "How the search ended."),
        _category("python_version", "Python version of the requested environment."),
        _category("platform", "Platform of the requested environment, as a wheel tag."),
        _text("snapshot_revision", "Revision of the package data that was used."),
        _text("result_digest", "Digest of the result, without times and identifiers."),
        _time("created_at", "When the advice was made."),
        _integer("rank", "Position of the stack; the best has rank 1."),
        _real("score", "Score of the stack, in points."),
        _text("stack_digest", "Digest of the stack; null if it was never measured."),
    ),
    exported_advice,
)
_VERDICTS = ExportTable(
    "verdicts",
    "One row for each measured stack and series, compared with the baseline of the series by the"
    " rules of thoth stacks.",
    (
        _COMPARISON_KEY,
        _INDICATOR,
        _SCRIPT,
        _RATE_UNIT,
        _PARAMETERS,
        _DEVICE,
        _PYTHON,
        _real("delta_pct", "Smallest difference of interest.", "%"),
        *_HARDWARE,
        _text("baseline_digest", "Digest of the baseline's stack."),
        _category("baseline_reason", "Why this stack is the baseline."),
        _STACK,
        _category("component", "Measured library."),
        _category("component_version", "Its version in the stack."),
        _integer("jobs", "Number of jobs, with those left out."),
        _real(
            "median_rate",
            "Median over the jobs that count; of a compared stack, the baseline's median times"
            " 1 + the difference.",
            _OF_ROW,
        ),
        _real("spread_pct", "Robust coefficient of variation of the jobs.", "%"),
        _texts("differing_packages", "Packages that differ from the baseline, with versions."),
        _integer("left_out", "Jobs of the stack and the baseline outside the comparison."),
        _category("verdict", "faster, slower, equivalent or undetermined; null for the baseline."),
        _real("difference_pct", "How much faster than the baseline.", "%"),
        _real("interval_low_pct", "Lower end of the 95 % interval.", "%"),
        _real("interval_high_pct", "Upper end of the 95 % interval.", "%"),
        _real("d", "Difference of the logarithms of the rates."),
        _real("standard_error", "Standard error of d."),
        _real("degrees_of_freedom", "Degrees of freedom of the standard error."),
        _real("p_value", "P-value, adjusted over all comparisons; 1 if not tested."),
        _integer("runs", "Runs of the stack, or pairs."),
        _integer("baseline_runs", "Runs of the baseline, or pairs."),
        _integer("batches", "Batches of the pairs, or the smaller number of runs."),
        _category("needs", "What a verdict needs; null if nothing."),
        _integer("jobs_missing", "Further jobs of the stack for a verdict."),
        _integer("baseline_jobs_missing", "Further jobs of the baseline for a verdict."),
        _category("method", "How the difference was estimated."),
        _integer("pairs", "Pairs of jobs that ran in turns."),
        _integer("hosts", "Hosts that both stacks used."),
        _real("tau", "Standard deviation of the difference between hosts, natural logarithm."),
        _texts("document_ids", "Digests of the inspections of the stack in this series."),
    ),
    exported_verdicts,
)

#: All tables by name, in the order of an export.
TABLES = {
    table.name: table
    for table in (
        _INSPECTIONS,
        _OBSERVATIONS,
        _SAMPLES,
        _HARDWARE_CLASSES,
        _STACKS,
        _RELEASES,
        _ADVISORIES,
        _ADVISORY_PACKAGES,
        _ADVISORY_ARCHIVES,
        _VULNERABILITIES,
        _BENCHMARKS,
        _ADVICE,
        _VERDICTS,
    )
}
