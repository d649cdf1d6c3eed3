"""The unmodified ``thamos`` client, in an environment of its own that is kept between runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.environments import pinned_environment
from tests.services.forking import Program, loaded
from tests.services.served import Served
from tests.services.waiting import DEADLINE_S

#: Wide enough that no table of the client is broken, and quick to try again.
_VARIABLES = {
    "COLUMNS": "400",
    "NO_COLOR": "1",
    # Nothing is installed where a test did not say.
    "PIP_REQUIRE_VIRTUALENV": "1",
    "THAMOS_NO_PROGRESSBAR": "1",
    "THAMOS_NO_EMOJI": "1",
    "THAMOS_RETRY_ON_ERROR_SLEEP": "0.1",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did."""

    exit_code: int
    output: str
    errors: str


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with a project, and the client that works in it."""

    folder: Path
    client: Client

    def thamos(self, *arguments: str, **more: str) -> Ran:
        """Run a command here; ``more`` are variables."""
        return self.client.run(self.folder, *arguments, **more)

    def done(self, *arguments: str, **more: str) -> str:
        """What a command prints that ends well."""
        ran = self.thamos(*arguments, **more)
        assert ran.exit_code == 0, f"{arguments}: {ran}"
        return ran.output

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        """A file of the project; empty if it is not there."""
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


@dataclass(frozen=True, slots=True)
class Client:
    """A client that is loaded, and the service that it asks."""

    program: Program
    served: Served

    def run(self, folder: Path, *arguments: str, **more: str) -> Ran:
        """Run a command in a folder, as a process of its own."""
        done = self.program.run(arguments, variables(self.served) | more, folder)
        return Ran(done.returncode, done.stdout, done.stderr)


@contextmanager
def thamos_client(served: Served, outputs: Path) -> Iterator[Client]:
    """A client of a service; ``outputs`` is a folder for what its commands print."""
    python = str(pinned_environment("thamos") / "bin" / "python")
    with loaded(python, outputs, "thamos.cli:cli", "thamos") as program:
        yield Client(program, served)


def thamos_command(served: Served, folder: Path, *arguments: str, **more: str) -> Ran:
    """The client's own command, loaded anew; ``more`` are variables."""
    done = subprocess.run(
        [str(pinned_environment("thamos") / "bin" / "thamos"), *arguments],
        cwd=folder, env=variables(served) | more, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def variables(served: Served) -> dict[str, str]:
    """The environment of a client that trusts the service's certificate."""
    environ = {name: it for name, it in os.environ.items() if not name.startswith("THAMOS_")}
    return environ | _VARIABLES | {"REQUESTS_CA_BUNDLE": str(served.ca)}
