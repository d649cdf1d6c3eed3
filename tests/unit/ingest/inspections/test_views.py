"""What documents of each generation become: the first one whole, the others by what differs."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ingest.inspections.parsing import parse_inspections
from ingest.sources.source_items import RawDocument, RefusedDocument
from model.measurements.inspection import InspectionDocument
from tests.factories.case_files import described
from tests.factories.documents import (
    directory,
    document_2019,
    document_2020_02,
    document_with_job_logs,
    encoded,
    lock,
    result_document,
    single,
    specification,
)
from tests.factories.golden import compare_views
from tests.factories.inspections import (
    MATMUL,
    failed_status,
    inspection,
    job_document,
    measured,
    printed,
    specification_document,
    status_document,
)

BLAS = {"name": "OpenBLAS", "version": "0.3.29", "source": "numpy.libs/libopenblas.so"}
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TWICE = result_document(hostname=None)
NAMELESS = result_document(hostname=None, hwinfo=None)
SIZES = printed(*(measured(1.0, parameters={**MATMUL, "matrix_size": size}) for size in (64, 128)))
USAGE = {
    "ru_maxrss": 120_000, "ru_minflt": 2**40, "ru_majflt": 3, "ru_nvcsw": 17, "ru_nivcsw": 45,
    "ru_inblock": 3920, "ru_oublock": 0,
}  # fmt: skip
CONDITIONS = {"before": {"load": [1.5, 0.2, 0.1]}, "steal_share": 0.001, "throttled": True,
              "swapped": False}  # fmt: skip
FOREIGN = {
    "host": 5, "schedule": "?", "conditions": [], "limits": 7, "ended": 1, "script": [],
    "inspection_id": 3, "launcher": 4,
}  # fmt: skip


def with_accelerator() -> dict[str, Any]:
    result = result_document()
    result["hwinfo"]["gpu"] = [
        {"name": "Tesla T4", "compute_capability": "7.5", "driver_version": "535.104.05",
         "cuda_version": "12.2.140", "cudnn_version": "8.9.7"}
    ]  # fmt: skip
    return result


def with_local_packages() -> dict[str, Any]:
    locked = lock(numpy="1.18.5")
    locked["default"]["mine"] = {"git": "https://code.example/mine", "ref": "abc"}
    locked["default"]["other"] = {"path": "."}
    return specification(python={"requirements": {}, "requirements_locked": locked})


def with_logs(key: str) -> dict[str, Any]:
    document = document_with_job_logs()
    document[key] = document.pop("job_logs")
    return document


def with_broken_log() -> dict[str, Any]:
    document = document_with_job_logs(3)
    document["job_logs"][1]["exit_code"] = "0"
    return document


#: Of amun; each is compared with the first one. New ones come last: digests are numbered.
AMUN = {
    "a folder": directory(),
    "a folder without its specification": directory(specification=False),
    "packages that have no version": directory(specification=with_local_packages()),
    "accelerators": directory(with_accelerator()),
    "jobs that are alike": directory(TWICE, TWICE),
    "more jobs that are alike": directory(TWICE, TWICE, TWICE, result_document(exit_code=3)),
    "a folder that is named by itself": directory(NAMELESS, place="x/inspection-y"),
    "fields that are not for this program": directory(result_document(**FOREIGN)),
    "2019": single(document_2019()),
    "a crash of 2019": single(document_2019(exit_code=-6, stdout="")),
    "2020-02": single(document_2020_02()),
    "2020-02 that is named by its digest": single(NAMELESS),
    "2020-02 without the name of its system": single(
        document_2020_02(runtime_environment={"operating_system": {"name": None}})
    ),
    "a dictionary": single({"inspection-a-00000001": [document_2020_02()],
                            "inspection-b-00000002": [document_2020_02(exit_code=1)]}),
    "a dictionary with an invalid inspection": single(
        {"a": [document_2020_02()], "b": [document_2020_02(exit_code="0")]}
    ),
    "job logs": single(document_with_job_logs(2)),
    "job logs with an invalid one": single(with_broken_log()),
    "job logs by another name": single(with_logs("logs")),
    "a specification alone": single(specification()),
    "a folder without results": RawDocument(
        "x", files={"build/specification": encoded(specification())}
    ),
    "other keys": single({"metadata": {}, "result": {}}),
    "a list": single([1]),
    "an unknown version": single({**document_2020_02(), "schema_version": "inspection-2031"}),
    "a version that is a number": single({**document_2019(), "schema_version": 7}),
    "nothing": single({}),
    "a dictionary with an empty list": single({"a": [], "b": [document_2020_02()]}),
}  # fmt: skip

#: Of this project.
OWN = {
    "two jobs in turns": inspection(job_document(0), job_document(1), place="renamed"),
    "one job": inspection(job_document(0)),
    "several results of a job": inspection(job_document(0, SIZES)),
    "no result": inspection(job_document(0, {**printed(measured(1.0)), "@result": {}})),
    "an empty list of results": inspection(job_document(0, {"name": "PiGemm", "@results": []})),
    "what the job used": inspection(job_document(0, usage=USAGE, conditions=CONDITIONS)),
    "nothing of what the job used": inspection(
        job_document(0, usage=None, conditions=None, launcher=None)
    ),
    "limits that were not recorded": inspection(job_document(0, limits=None)),
    "a job that did not run in turns": inspection(
        job_document(0, schedule={"run": "r", "block": 0, "turn": 3, "interleaved": False})
    ),
    "a crash before a job": inspection(
        job_document(0, "", exit_code=1),
        job_document(1, printed(measured(1.0), component="torch")),
        specification=specification_document({"torch": "2.4.0", "numpy": "2.1.0"}),
    ),
    "a failed build": inspection(status=failed_status("no-wheel", "no such release")),
    "a failed build without a reason": inspection(status=failed_status(None)),
    "results before a build that failed": inspection(job_document(0), status=failed_status()),
    "jobs of two inspections": inspection(
        job_document(0), job_document(1, inspection_id="inspection-other-00000000")
    ),
    **{
        f"a rate in {unit}": inspection(job_document(0, printed(measured(2.5, unit))))
        for unit in ("GOPS", "GB/s", "images/s", "tokens/s", "imports/s")
    },
    "a boot and a build": inspection(
        job_document(0, boot="sha256:1", environment_build="b1", environment="sha256:2")
    ),
    "an environment without a build": inspection(job_document(0, environment="sha256:2")),
    **{
        f"energy of {joules} J": inspection(job_document(0, conditions={"energy": energy}))
        for joules, energy in (
            (12.5, {"joules": 12.5, "counters": ["package-0", "gpu-0"], "reason": None}),
            (None, {"joules": None, "counters": [], "reason": "no counter is readable here"}),
            (0, {"joules": 0}),
        )
    },
    **{
        f"wheels that bundle {name}": inspection(
            job_document(0), status=status_document(bundled={"numpy==2.3.0": [library]})
        )
        for name, library in (("OpenBLAS", BLAS), ("a number", {"name": 7}))
    },
}


Facts = dict[str, str]


def facts(value: Any) -> Facts:
    """Parts of a dataclass by their path."""
    found: Facts = {}
    for path, _, text in (it.partition(": ") for it in described(value)):
        found[path] = f"{found[path]}, {text}" if path in found else text
    return found


def differences(found: Facts, usual: Facts) -> list[str]:
    """Lines for what is not as usual."""
    return [
        f"{path}: {found.get(path, '–')}"
        for path in {**found, **usual}
        if found.get(path) != usual.get(path)
    ]


def lines_of(raw: RawDocument, usual: tuple[Facts, Facts]) -> Iterator[str]:
    """What differs in documents, and in each observation from the one before."""
    for document in parse_inspections(raw):
        if isinstance(document, RefusedDocument):
            yield f"refused: {document.place}: {document.error}"
            continue
        before = usual[1]
        yield from differences(facts(replace(document, observations=(), body=b"")), usual[0])
        for number, observation in enumerate(document.observations):
            these = facts(observation)
            yield from (f"  {number} {it}" for it in differences(these, before))
            before = these


def test_each_inspection_format_gives_its_jobs_stack_and_hardware() -> None:
    numbers: dict[str, int] = {}
    views = {}
    for several in (AMUN, OWN):
        nothing: tuple[Facts, Facts] = ({}, {})
        (first,) = parse_inspections(next(iter(several.values())))
        assert isinstance(first, InspectionDocument)
        whole = facts(replace(first, observations=(), body=b"")), facts(first.observations[0])
        for title, raw in several.items():
            usual = nothing if raw is next(iter(several.values())) else whole
            views[title] = DIGEST.sub(
                # Equal digests have equal numbers.
                lambda it: f"#{numbers.setdefault(it[0], len(numbers) + 1)}",
                "\n".join(lines_of(raw, usual)),
            )
    compare_views("inspection_documents", views)
