"""Programs that are loaded once and run often: loading one takes longer than most commands do."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_RUNNER = Path(__file__).with_name("forking_runner.py")


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is loaded, and a folder for what its commands print."""

    process: subprocess.Popen[str]
    outputs: Path

    def run(
        self, arguments: tuple[str, ...], environment: Mapping[str, str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in ``folder``, as a process of its own."""
        stdout, stderr = self.outputs / "stdout", self.outputs / "stderr"
        command = {
            "folder": str(folder), "arguments": arguments, "environment": dict(environment),
            "stdout": str(stdout), "stderr": str(stderr),
        }  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(command)}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the program is gone"
        return subprocess.CompletedProcess(
            arguments, int(answer), stdout.read_text("utf-8"), stderr.read_text("utf-8")
        )


@contextmanager
def loaded(
    python: str, outputs: Path, function: str, name: str, *modules: str
) -> Iterator[Program]:
    """Load a program, for the length of the block.

    :param function: ``MODULE:FUNCTION`` that runs a command, without arguments
    :param name: of the program
    :param modules: loaded as well; ``PACKAGE.*`` is a package with all its modules
    """
    process = subprocess.Popen(
        [python, "-P", str(_RUNNER), function, name, *modules],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Program(process, outputs)
    finally:
        process.communicate()
