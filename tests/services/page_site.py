"""The bundled samples in a service, the addresses of its pages, and a browser."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from graph.engine import relational_engine
from tests.factories.affected_stacks import AFFECTED_STACK, add_affected_stack
from tests.factories.bisects import add_bisects
from tests.factories.nights import add_night
from tests.services.commands import ROOT
from tests.services.served import Served

PAGES = (
    "/", "/ask", "/packages", "/packages/numpy", "/stacks", "/reports", "/compare", "/inspections",
    "/benchmarks", "/changes", "/bisects", "/bisects/bisect-ended", "/questions", "/questions/2",
    "/loop", "/trust", "/docs", "/sign-in",
)  # fmt: skip


def fill(served: Served) -> None:
    """Give a service the bundled samples, an advice and a night."""
    samples = ROOT / "samples"
    where = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64", "--hardware", "fa9f8e70")
    for arguments in (
        ("ingest", "inspections", str(samples / "inspections.tar.gz")),
        ("packages", "import", str(samples / "packages.jsonl.gz")),
        ("advise", str(samples / "project"), "--type", "performance", *where),
    ):
        done = served.thoth(*arguments)
        assert done.returncode == 0, done.stderr
    engine = relational_engine(served.settings)
    with engine.begin() as connection:
        add_night(connection)
        add_bisects(connection)
        add_affected_stack(connection)
    engine.dispose()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium."""
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        yield playwright.chromium.launch(executable_path=program, args=options)


def page_addresses(site: Served) -> list[str]:
    """The pages, and one of each object."""
    with site.client(site.token("admin")) as client:
        jobs = client.get("/api/v2/observations", params={"limit": 1, "outcome": "measured"}).json()
        stacks = client.get("/api/v2/comparison-groups", params={"package": "numpy"}).json()
        advice = client.get("/api/v2/advice", params={"limit": 1}).json()
        (advised,) = advice["items"]
        report = client.get(f"/api/v2/advice/{advised['advice_id']}/report").json()
    claim, *_ = report["result"]["report"]["products"][0]["claims"]
    (observation,), group = jobs["items"], stacks["items"][0]
    candidate = next(it for it in group["stacks"] if it["comparison"])["stack_digest"]
    return [
        *PAGES, f"/jobs/{observation['observation_id']}", f"/advice/{advised['advice_id']}",
        f"/advice/{advised['advice_id']}/claims/{claim['claim_id']}",
        f"/stacks/{AFFECTED_STACK}", "/vulnerabilities/CVE-2026-1",
        f"/inspections/{observation['document_id']}", f"/stacks/{candidate}",
        f"/hardware/{observation['hardware_digest']}", f"/series/{group['comparison_key']}",
        f"/reports/{group['comparison_key']}",
        f"/compare?baseline={group['baseline']['stack_digest']}&candidate={candidate}",
    ]  # fmt: skip
