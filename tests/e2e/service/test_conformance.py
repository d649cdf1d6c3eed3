"""The service is what its OpenAPI document says, whatever it is sent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories.advisories import flask_sessions, write_archive
from tests.services.commands import ROOT
from tests.services.conformance import conformance
from tests.services.ports import closed_port
from tests.services.served import Served, serving

SCOPES = ("read", "advise", "ingest", "inspect", "cypher", "admin")
#: Each operation's own; what boundary values make of it comes on top.
EXAMPLES = 2


@pytest.fixture(scope="module")
def full() -> Iterator[Served]:
    """A service with something of everything, whose worker runs what people wait for.

    What others submit is accepted and waits: no test code of a generator's is run, and no index
    is asked.
    """
    home = Path(tempfile.mkdtemp(prefix="thoth-conforms-"))
    index = f"pypi=http://127.0.0.1:{closed_port()}/simple"
    try:
        with serving(home, {"PACKAGE_INDEXES": index}, queues=["people"]) as running:
            samples = ROOT / "samples"
            advisories = write_archive(home / "all.zip", flask_sessions())
            for command in (
                ("ingest", "inspections", str(samples / "inspections.tar.gz")),
                ("packages", "import", str(samples / "packages.jsonl.gz")),
                ("advisories", "sync", str(advisories)),
            ):
                done = running.thoth(*command)
                assert done.returncode == 0, done.stderr
            yield running
    finally:
        shutil.rmtree(home)


@pytest.mark.slow  # sends some thousand requests
def test_every_response_is_as_documented(full: Served, tmp_path: Path) -> None:
    ran = conformance(
        full.base_url, full.token(*SCOPES), tmp_path,
        "--max-examples", str(EXAMPLES), "--seed", "1",
        phases=("examples", "coverage", "fuzzing"), ca=full.ca,
    )  # fmt: skip
    assert ran.failures == 0, ran.output
    assert ran.operations >= 60
    assert ran.cases >= 500


def test_unreadable_request_gets_problem_document_with_request_id(served: Served) -> None:
    with served.client() as client:
        response = client.get("/api/v1", params={"long": "x" * 9000})
    assert response.status_code == 414
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == 414
    assert response.json()["error"] == response.json()["detail"]
    request_id = response.headers["X-Request-Id"]
    assert response.json()["request_id"] == request_id
    assert response.headers["X-Thoth-Version"]
    assert any(request_id in line for line in served.log.read_text("utf-8").splitlines())
