"""Requests to the service whose time is measured, and the data that they need."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents import write_documents
from benchmarks.fresh_stores import FreshHome
from benchmarks.load import Client, Visit
from benchmarks.sample_data import SAMPLE_INSPECTIONS, SAMPLE_PACKAGES

FLASK = ("flask",)
ADVISE, UPLOAD = "/api/v1/advise/python", "/api/v2/inspections"
QUERY = {"recommendation_type": "latest", "dev": "False", "debug": "False"}
#: The same, without the cache.
UNCACHED = {**QUERY, "force": "True"}
#: First and longest pause between two reads of a result, their ratio, and the time limit.
_PAUSE_S, _LONGEST_PAUSE_S, _LONGER, _PATIENCE_S = 0.01, 0.2, 1.5, 60.0


def import_data(home: FreshHome, packages: Path = SAMPLE_PACKAGES) -> None:
    """Import packages and ingest the inspections of the samples."""
    home.thoth("packages", "import", str(packages))
    home.thoth("ingest", "inspections", str(SAMPLE_INSPECTIONS))


def advice_request(roots: Sequence[str]) -> object:
    """A request for an advice on packages in any version."""
    pipfile = "[packages]\n" + "".join(f'{name} = "*"\n' for name in roots)
    where = {"python_version": "3.11", "operating_system": {"name": "ubi", "version": "9"}}
    stack = {"requirements": pipfile, "requirements_lock": ""}
    return {"application_stack": stack, "runtime_environment": where}


def read_path(path: str) -> Visit:
    """A visit that reads a document."""

    def visit(client: Client, _: int) -> None:
        status, _body = client.get(path)
        expect(status, 200)

    return visit


def request_cached_advice(client: Client, _: int) -> None:
    """Request an advice that is in the cache."""
    status, accepted = client.post(ADVISE, advice_request(FLASK), QUERY)
    expect(status, 202)
    assert accepted["cached"], "the advice is not cached"


def request_new_advice(roots: Sequence[str]) -> Visit:
    """A visit that requests a new advice and reads its result."""

    def visit(client: Client, _: int) -> None:
        new_advice(client, roots)

    return visit


def new_advice(client: Client, roots: Sequence[str]) -> str:
    """Request a new advice, wait for its result, and return its identifier."""
    status, accepted = client.post(ADVISE, advice_request(roots), UNCACHED)
    expect(status, 202)
    until, pause_s = time.monotonic() + _PATIENCE_S, _PAUSE_S
    while time.monotonic() < until:
        status, body = client.get(f"{ADVISE}/{accepted['analysis_id']}")
        if status != 202:
            expect(status, 200)
            assert not json.loads(body)["result"]["error"], "there is no stack"
            return str(accepted["analysis_id"])
        time.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * _LONGER)
    raise TimeoutError(f"no result within {_PATIENCE_S:.0f} s")


def steps_of(report: Mapping[str, Any]) -> str:
    """The steps of an advice with their times, from its report."""
    timings = report["metadata"]["timings"].items()
    return ", ".join(f"{name.removesuffix('_s')} {taken * 1000:.1f} ms" for name, taken in timings)


def upload_documents(folder: Path, count: int) -> Visit:
    """A visit that uploads an inspection; each of the ``count`` inspections is uploaded once."""
    take = new_documents(folder, count)

    def visit(client: Client, _: int) -> None:
        status, _answer = client.post(UPLOAD, take())
        expect(status, 201)

    return visit


def new_documents(folder: Path, count: int) -> Callable[[], bytes]:
    """A function that returns each of ``count`` new documents once; it is safe for threads."""
    write_documents(folder, count, seed=7)
    files = sorted(folder.rglob("*.json"))
    numbers, lock = iter(range(count)), threading.Lock()

    def take() -> bytes:
        with lock:
            number = next(numbers)
        return files[number].read_bytes()

    return take


def expect(status: int, wanted: int) -> None:
    """:raises AssertionError: if it is another status"""
    if status != wanted:
        raise AssertionError(f"{status}, not {wanted}")
