"""Reads the generations of inspection documents, each with its own layout.

=============================  ==================================================================
inspection-2019                ``inspection_id``, ``specification``, ``status`` and one ``job_log``
inspection-2020-02-job-logs    the same with several ``job_logs``, each of them a result
inspection-2020-02             a result with ``requirements_locked`` and ``build_log`` beside it
inspection-2020-02-dictionary  several of them: ``{inspection: [result, …]}``
inspection-directory           ``build/specification``, ``build/status``, ``results/N/result`` …
=============================  ==================================================================

A document of any generation becomes one or more :class:`DeliveredInspection`, the input of the
other parsers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.formats.job_results import is_ours
from ingest.inspections.specification import canonical_lock
from ingest.personal_data import scrub, scrub_text
from ingest.sources.source_items import RawDocument
from model.errors import InvalidDocument, Reason
from model.json_documents import canonical_json, load_json
from model.json_fields import MAX_NAME_LENGTH, ROOT, FieldPath, Fields, Record, inside, too_long
from model.measurements.inspection import OWN_COLLECTOR, SchemaVersion
from model.packages.native_libraries import Bundled, bundled_of
from model.text import first_few

_RESULT_FILE = re.compile(r"results/([0-9]{1,9})/(result|hwinfo|log)\Z")
_RESULT_KEYS = {"exit_code", "stdout"}
#: Keys of the stored body of a folder, and of its results.
_DIRECTORY_KEYS = {"build_log", "dockerfile", "results", "specification", "status"}
_DIRECTORY_RESULT_KEYS = {"hwinfo", "log", "result"}
EARLIER_COLLECTOR = "amun"


@dataclass(frozen=True, slots=True)
class JobDocument:
    """Result of one job, or status of a build.

    :param canonical: bytes that identify the job
    :param location: path of the result, such as ``results/3/result:$`` in a folder
    """

    result: Record
    canonical: bytes
    location: FieldPath


@dataclass(frozen=True, slots=True)
class DeliveredInspection:
    """An inspection, in the same form for all generations.

    :param name: name in the content; ``None`` if only the file or folder has the name
    :param specification: canonical bytes; documents of 2020-02 have ``lock`` and ``pipfile``
        instead
    :param body: canonical JSON of the whole document
    :param location: path of the specification
    :param failed_build: status of the failed build of an inspection without jobs
    :param bundled: libraries of its wheels, as its build recorded them
    """

    schema_version: SchemaVersion
    name: str | None
    jobs: tuple[JobDocument, ...]
    body: bytes
    location: FieldPath
    specification: bytes | None = None
    lock: bytes | None = None
    pipfile: bytes = b"{}"
    created: Record = field(default_factory=dict)
    failed_build: JobDocument | None = None
    bundled: Bundled | None = None

    @property
    def collector(self) -> str:
        """The program that wrote the document: this project's executor or its predecessor."""
        ours = self.failed_build is not None or any(is_ours(job.result) for job in self.jobs)
        return OWN_COLLECTOR if ours else EARLIER_COLLECTOR


def deliveries_of(raw: RawDocument) -> Iterator[DeliveredInspection | InvalidDocument]:
    """Yield the inspections in ``raw``, with an error in place of each unreadable inspection."""
    try:
        if raw.data is None:
            yield _directory(raw)
            return
        value, canonical = _load(raw.data, raw.value)
        kind = _kind_of(value)
        if kind is not SchemaVersion.Y2020_02_DICTIONARY or _is_stored_entry(value):
            yield _delivery(value, canonical, kind)
            return
    except InvalidDocument as error:
        yield error
        return
    for name, results in value.items():
        try:
            yield _dictionary_entry(name, results, ROOT / name)
        except InvalidDocument as error:
            yield error


def delivery_of_body(body: bytes, schema_version: SchemaVersion) -> DeliveredInspection:
    """Read the stored body of an inspection; error locations refer to the delivered files.

    Private data is not removed again, because the stored rows come from exactly this body.

    :raises InvalidDocument: if ``body`` does not have the layout of ``schema_version``
    """
    value, canonical = load_json(body)
    return _delivery(Fields(value).record, canonical, schema_version)


def _delivery(
    value: Record, canonical: bytes, schema_version: SchemaVersion
) -> DeliveredInspection:
    if schema_version in _SINGLE:
        return _SINGLE[schema_version](value, canonical)
    if schema_version is SchemaVersion.Y2020_02_DICTIONARY:
        name = Fields(value).text("inspection") or ""
        return _dictionary_entry(name, value.get("results"), ROOT)
    return _stored_directory(value, canonical)


def has_inspection_keys(value: Record) -> bool:
    """Whether the keys of a single file match a generation of inspections.

    >>> has_inspection_keys({"inspection-a": [{"exit_code": 0, "stdout": ""}]})
    True
    """
    return (
        not value.keys().isdisjoint({"job_log", "job_logs"})
        or value.keys() >= _RESULT_KEYS
        or any(map(_is_result_list, value.values()))
    )


def _load(data: bytes, parsed: Any = None) -> tuple[Any, bytes]:
    """Parse strict JSON and remove private data; return the value and its canonical bytes."""
    value, canonical = load_json(data, parsed)
    scrubbed = scrub(value, canonical)
    return scrubbed, canonical if scrubbed is value else canonical_json(scrubbed)


def _kind_of(value: Any) -> SchemaVersion:
    """Recognise the generation of a single file by its keys."""
    if not isinstance(value, dict):
        raise _unknown(f"the document is not an object but {type(value).__name__}")
    claimed = value.get("schema_version")
    if claimed is not None and claimed not in list(SchemaVersion):
        raise _unknown(f"schema_version {str(claimed)[:60]!r} is not known", "$.schema_version")
    if "job_log" in value:
        return SchemaVersion.Y2019
    if "job_logs" in value:
        return SchemaVersion.Y2020_02_JOB_LOGS
    if value.keys() >= _RESULT_KEYS:
        return SchemaVersion.Y2020_02
    if any(map(_is_result_list, value.values())) and all(
        isinstance(inner, list) for inner in value.values()
    ):
        return SchemaVersion.Y2020_02_DICTIONARY
    if _is_stored_entry(value):
        return SchemaVersion.Y2020_02_DICTIONARY
    # The stored body of an inspection folder.
    results = value.get("results")
    if (
        value.keys() <= _DIRECTORY_KEYS
        and isinstance(results, list)
        and all(isinstance(it, dict) and it.keys() <= _DIRECTORY_RESULT_KEYS for it in results)
    ):
        return SchemaVersion.DIRECTORY
    if "base" in value and value.keys() & {"python", "script", "build", "run"}:
        raise _unknown("the document is a specification without results")
    keys = first_few([key[:40] for key in sorted(value)], 12)
    raise _unknown(f"no known generation has the keys {keys!r}")


def _is_stored_entry(value: Record) -> bool:
    """Whether this is the stored body of one inspection of a dictionary."""
    return value.keys() == {"inspection", "results"} and _is_result_list(value["results"])


def _is_result_list(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return isinstance(value[0], dict) and bool(value[0].keys() & _RESULT_KEYS)


def _unknown(message: str, field: str = "$") -> InvalidDocument:
    known = ", ".join(SchemaVersion)
    return InvalidDocument(
        Reason.UNKNOWN_SCHEMA, f"{message}; known generations: {known}", field=field
    )


def _y2019(value: Record, canonical: bytes) -> DeliveredInspection:
    fields = Fields(value)
    fields.nested("job_log")
    times = fields.nested("status").nested("job").record
    specification = value.get("specification")
    # A job log of 2019 contains neither machine nor time, so two crashes could be equal.
    identity = {key: value.get(key) for key in ("inspection_id", "job_log")} | {"job": times}
    return DeliveredInspection(
        SchemaVersion.Y2019,
        fields.text("inspection_id"),
        (JobDocument(value, canonical_json(identity), ROOT),),
        canonical,
        ROOT / "specification",
        specification=None if specification is None else canonical_json(specification),
    )


def _job_logs(value: Record, canonical: bytes) -> DeliveredInspection:
    logs = value.get("job_logs")
    if not isinstance(logs, list):
        raise Fields(value).wrong_type(logs, "a list of results", "job_logs")
    if not logs:
        raise _unknown("an inspection without job logs", "$.job_logs")
    jobs = []
    for log in Fields(value).each("job_logs"):
        jobs.append(JobDocument(log.record, canonical_json(log.record), log.at))
    specification = value.get("specification")
    return DeliveredInspection(
        SchemaVersion.Y2020_02_JOB_LOGS,
        Fields(value).text("inspection_id"),
        tuple(jobs),
        canonical,
        ROOT / "specification",
        specification=None if specification is None else canonical_json(specification),
        created={"@created": value.get("created")},
    )


def _y2020_02(value: Record, canonical: bytes) -> DeliveredInspection:
    return DeliveredInspection(
        SchemaVersion.Y2020_02,
        _name_of(value),
        (JobDocument(value, canonical, ROOT),),
        canonical,
        ROOT,
        lock=canonical_lock(value.get("requirements_locked"), ROOT / "requirements_locked"),
        pipfile=canonical_lock(value.get("requirements"), ROOT / "requirements"),
    )


#: Readers of the generations whose files hold one inspection each.
_SINGLE = {
    SchemaVersion.Y2019: _y2019,
    SchemaVersion.Y2020_02_JOB_LOGS: _job_logs,
    SchemaVersion.Y2020_02: _y2020_02,
}


def _dictionary_entry(name: str, results: Any, location: FieldPath) -> DeliveredInspection:
    if not isinstance(results, list):
        raise Fields({}, location).wrong_type(results, "a list of results")
    if not results:
        raise _unknown("an inspection without results", location)
    if len(name) > MAX_NAME_LENGTH:
        raise too_long(location)
    locks, pipfiles, jobs = set(), set(), []
    for index, result in enumerate(results):
        at = location / index
        record = Fields(result, at).record
        locks.add(canonical_lock(record.get("requirements_locked"), at / "requirements_locked"))
        pipfiles.add(canonical_lock(record.get("requirements"), at / "requirements"))
        jobs.append(JobDocument(record, canonical_json(record), at))
    if len(locks) > 1 or len(pipfiles) > 1:
        raise InvalidDocument(
            Reason.CONFLICTING_FIELDS, "the results name different stacks", field=location
        )
    body = canonical_json({"inspection": name, "results": results})
    return DeliveredInspection(
        SchemaVersion.Y2020_02_DICTIONARY,
        name,
        tuple(jobs),
        body,
        location / 0,
        lock=locks.pop(),
        pipfile=pipfiles.pop(),
    )


def _directory(raw: RawDocument) -> DeliveredInspection:
    """Read an inspection folder; the folder's name is not stored, so copies are equal."""
    numbered = _numbered(raw.files)
    results = []
    for number, files in numbered:
        result = _file(files, "result", f"results/{number}/")
        hwinfo = _file(files, "hwinfo", f"results/{number}/")
        if result is not None and result.get("hwinfo") == hwinfo:
            hwinfo = None  # a copy of the result's
        results.append(_without_none(hwinfo=hwinfo, log=_log(files, "log"), result=result))
    value = _without_none(
        build_log=_log(raw.files, "build/log"),
        dockerfile=_log(raw.files, "build/Dockerfile"),
        results=results,
        specification=_file(raw.files, "build/specification"),
        status=_file(raw.files, "build/status"),
    )
    try:
        body = canonical_json(value)
    except TypeError:  # each file is within the limit, but not all of them in one document
        raise InvalidDocument(Reason.NESTED_TOO_DEEP, "nested too deep") from None
    return _stored_directory(value, body, [number for number, _ in numbered])


def _stored_directory(
    value: Record, body: bytes, numbers: Sequence[str] | None = None
) -> DeliveredInspection:
    """Read the body of an inspection folder.

    :param numbers: names of the folders of results, for errors; by default, their positions
    """
    jobs = []
    fields = Fields(value)
    for position, part in enumerate(fields.each("results")):
        if part.get("result") is not None:
            result = part.nested("result").record
            location = FieldPath(f"results/{numbers[position] if numbers else position}/result:$")
            jobs.append(JobDocument(result, canonical_json(result), location))
    status, specification = fields.nested("status").record, fields.nested("specification").record
    failed = status.get("state") == "failed"
    if not jobs and not failed:
        raise _unknown("the folder has a specification without results")
    with inside("build/status:$"):
        built = Fields(status)
        bundled = bundled_of(built.nested("bundled")) if "bundled" in built else None
    has_specification = value.get("specification") is not None
    return DeliveredInspection(
        SchemaVersion.DIRECTORY,
        _directory_name(jobs),
        tuple(jobs),
        body,
        FieldPath("build/specification:$"),
        specification=canonical_json(specification) if has_specification else None,
        created={"@created": specification.get("@created")},
        failed_build=JobDocument(status, canonical_json(status), FieldPath("build/status:$"))
        if failed and not jobs
        else None,
        bundled=bundled,
    )


def _directory_name(jobs: list[JobDocument]) -> str | None:
    """Return the name that this project's runner recorded, or the name in the first host name."""
    names: dict[str, None] = {}
    for job in jobs:
        with inside(job.location):
            if is_ours(job.result):
                names |= dict.fromkeys(filter(None, [Fields(job.result).text("inspection_id")]))
            elif job is jobs[0]:
                return _name_of(job.result)
        if len(names) > 1:
            raise InvalidDocument(
                Reason.CONFLICTING_FIELDS,
                f"jobs of different inspections: {' and '.join(names)[:200]}",
                field=f"{job.location}.inspection_id",
            )
    return next(iter(names), None)


def _numbered(files: Mapping[str, bytes]) -> list[tuple[str, dict[str, bytes]]]:
    """Return the files of each folder ``results/N``, in the order of the numbers."""
    numbered: dict[int, tuple[str, dict[str, bytes]]] = {}
    for name, data in files.items():
        match = _RESULT_FILE.match(name)
        if match is None:
            continue
        number, part = match[1], match[2]
        spelled, parts = numbered.setdefault(int(number), (number, {}))
        if spelled != number:
            raise InvalidDocument(
                Reason.CONFLICTING_FIELDS,
                f"results/{spelled} and results/{number} have the same number",
                field=f"results/{number}",
            )
        parts[part] = data
    return [files_of_job for _, files_of_job in sorted(numbered.items())]


def _file(files: Mapping[str, bytes], name: str, folder: str = "") -> Record | None:
    """Return the object in a JSON file, if the file exists."""
    if name not in files:
        return None
    with inside(f"{folder}{name}:$"):
        return Fields(_load(files[name])[0]).record


def _log(files: Mapping[str, bytes], name: str) -> str | None:
    """Return a log; invalid bytes are replaced, because no program parses logs."""
    data = files.get(name)
    if data is None:
        return None
    return scrub_text(data.decode(errors="replace").replace("\0", "\ufffd"))


def _without_none(**values: Any) -> Record:
    return {key: value for key, value in values.items() if value is not None}


_POD = re.compile(r"(inspection-.+-[0-9a-f]{8})-[a-z0-9]+\Z")


def _name_of(result: Record) -> str | None:
    """Extract the inspection's name from a host name, without the pod's suffix.

    >>> _name_of({"hostname": "inspection-matmul-u38m-fd697eb4-1544334140"})
    'inspection-matmul-u38m-fd697eb4'
    """
    fields = Fields(result)
    host = fields.text("hostname") or fields.nested("hwinfo").nested("platform").text("node")
    if host is None:
        return None
    match = _POD.match(host)
    if match:
        return match[1]
    return host if re.fullmatch(r"inspection-.+-[0-9a-f]{8}", host) else None
