"""``thoth`` on the stores of some settings: in a process of its own, or in this one."""

import atexit
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click.testing import CliRunner
from sqlalchemy import Engine

from cli.main import run
from common.settings import Settings
from graph.tables import Base
from tests.services.forking import Program, loaded

THOTH = str(Path(sys.executable).with_name("thoth"))
ROOT = Path(__file__).parents[2]

#: Options for a machine that is the same wherever the tests run.
WHERE = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64")

#: What would lead a command to other stores than the test's.
_OURS = {
    "THOTH_HOME": "home",
    "INDEX_CACHE": "index_cache",
    "DATABASE_URL": "database_url",
    "GRAPH_URL": "graph_url",
    "GRAPH_USER": "graph_user",
    "GRAPH_PASSWORD": "graph_password",
    "GRAPH_DATABASE": "graph_database",
    "GRAPH_READER_USER": "graph_reader_user",
    "GRAPH_READER_PASSWORD": "graph_reader_password",
    "DOCUMENT_STORE_URL": "document_store_url",
    "CONNECT_TIMEOUT_S": "connect_timeout_s",
}


def variables(settings: Settings, **more: str) -> dict[str, str]:
    """``settings`` as environment variables, empty where unset; ``more`` are added.

    Commands read from an index only if a test names one, so that none asks the public index.
    """
    values = {name: getattr(settings, field) for name, field in _OURS.items()}
    texts = {name: "" if value is None else str(value) for name, value in values.items()}
    own = {"INGEST_SOURCES": " ".join(settings.ingest_sources), "FETCH_MISSING": "0"}
    return {**texts, **own, **({"FETCH_MISSING": "1"} if "PACKAGE_INDEXES" in more else {}), **more}


def thoth(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; ``more`` are variables."""
    return program().run(arguments, os.environ | variables(settings, **more), ROOT)


@cache
def program() -> Program:
    """``thoth``, loaded once a run."""
    stack = ExitStack()
    atexit.register(stack.close)
    outputs = Path(stack.enter_context(TemporaryDirectory(prefix="thoth-commands-")))
    rooms = ("model", "common", "graph", "pis", "ingest", "adviser", "cli")
    # A command loads this on demand, which takes half a second.
    modules = (*(f"{it}.*" for it in rooms), "scipy.special")
    return stack.enter_context(loaded(sys.executable, outputs, "cli.main:main", "thoth", *modules))


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command printed, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str


def run_here(
    command: click.Command, settings: Settings, *arguments: str, stdin: str | bytes | None = None
) -> Ended:
    """Run one command of ``thoth`` in this process, with the messages and exit codes of all."""
    runner = CliRunner()

    @click.group("thoth", commands=[command])
    @click.pass_context
    def program(context: click.Context) -> None:
        context.obj = settings

    with runner.isolation(input=stdin) as (stdout, stderr, _):
        exit_code = run(program, [command.name or "", *arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        printed = [it.getvalue().decode() for it in (stdout, stderr)]
    return Ended(exit_code, *printed)


def thoth_json(settings: Settings, *arguments: str, **more: str) -> Any:
    """What a command that ends well prints with ``--json``."""
    done = thoth(settings, *arguments, "--json", **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def row_counts(engine: Engine) -> dict[str, int]:
    """Rows of every table of the record."""
    with engine.connect() as connection:
        return {
            table: connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in sorted(Base.metadata.tables)
        }
