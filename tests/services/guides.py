"""Guides as a reader pastes them: the commands of a page, run top to bottom in one shell.

HTML comments before a block say how it is run:

- ``<!-- not run: REASON -->``: it is not
- ``<!-- exit code N -->``: its last command ends with N, the others with 0
- ``<!-- server -->``: its last command goes on; the next one waits until the service is ready
- ``<!-- file: NAME -->``: not commands, but a file that the reader saves
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: Languages of blocks that hold commands; in ``console`` they begin with ``$``.
SHELL = ("sh", "console")
_BLOCK = re.compile(
    r"(?ms)^(?:<!-- (?P<marker>[^\n]*?) -->\n+)?"
    r"(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$"
)
_MARKER = re.compile(r"(not run|exit code|server|file)(?::? (.+))?")
#: Ends with 0 if the service is ready and a worker runs.
_READY = """
import json, ssl, sys, urllib.request
context = ssl._create_unverified_context()
with urllib.request.urlopen(sys.argv[1], context=context) as answer:
    sys.exit(json.load(answer)["checks"]["workers"]["status"] != "up")
"""
#: Port of the service in guides; a run replaces it by a free one.
PORT = "8443"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page, with the comment before it."""

    language: str
    text: str
    kind: str = ""
    value: str = ""

    @property
    def commands(self) -> list[str]:
        """Each command with the lines that belong to it."""
        if self.language == "sh":
            return [self.text]
        return list(_commands(self.text))


@dataclass(frozen=True, slots=True)
class Command:
    """A command with the exit code that the guide promises."""

    text: str
    exit_code: int = 0
    is_server: bool = False


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for block in _BLOCK.finditer(text):
        marker = _MARKER.fullmatch(block["marker"] or "")
        kind, value = marker.groups("") if marker else ("", "")
        yield Block(block["language"], block["text"], kind, value)


def _commands(console: str) -> Iterator[str]:
    """The commands of a block of ``console``; other lines are output."""
    command = ""
    for line in console.splitlines():
        if command:
            command += f"\n{line}"
        elif line.startswith("$ "):
            command = line[2:]
        if command and _is_complete(command):
            yield command
            command = ""
    assert not command, f"the command does not end: {command}"


def _is_complete(command: str) -> bool:
    if command.endswith("\\"):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def commands_of(text: str) -> Iterator[Command | Block]:
    """What a reader does: commands to run, and files to save."""
    for block in blocks_of(text):
        if block.kind == "file":
            yield block
        elif block.language in SHELL and block.kind != "not run":
            assert block.commands, f"no command in a block of {block.language}:\n{block.text}"
            *others, last = block.commands
            yield from map(Command, others)
            code = int(block.value) if block.kind == "exit code" else 0
            yield Command(last, code, block.kind == "server")


def follow(guide: Path, folder: Path, environ: Mapping[str, str], port: int) -> str:
    """Run a guide in ``folder``; returns what its commands print.

    :param port: a free one, for the service that the guide starts
    :raises AssertionError: naming the first command that ends otherwise than promised
    """
    steps = list(commands_of(guide.read_text(encoding="utf-8")))
    script, log, codes = folder / ".guide.sh", folder / ".guide.log", folder / ".guide.codes"
    script.write_text("\n".join(_script(steps, folder, port)), encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["/usr/bin/env", "bash", str(script)], cwd=folder, env=dict(environ),
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
    printed = log.read_text("utf-8", "replace")
    ended = [line.split() for line in codes.read_text().splitlines()]
    expected = [step for step in steps if isinstance(step, Command)]
    for (_, code), command in zip(ended, expected, strict=False):
        assert int(code) == command.exit_code, f"{command.text}: exit code {code}\n{printed}"
    assert len(ended) == len(expected), f"{expected[len(ended)].text} did not end\n{printed}"
    return printed


def _script(steps: list[Command | Block], folder: Path, port: int) -> Iterator[str]:
    codes = shlex.quote(str(folder / ".guide.codes"))
    service = shlex.quote(str(folder / ".guide.service"))
    yield f": > {codes}"
    number = 0
    for step in steps:
        if isinstance(step, Block):
            # Where the reader is at that moment, which an earlier `cd` decides.
            yield f"cat > {shlex.quote(step.value)} <<'END_OF_FILE'\n{step.text}END_OF_FILE"
            continue
        text = step.text.replace(PORT, str(port))
        yield f"printf '%s\\n' {shlex.quote(f'$ {text}')}"
        if step.is_server:
            command = shlex.join([*shlex.split(text, comments=True), "--port", str(port)])
            yield f"{command} > {service} 2>&1 & service=$!"
            yield "trap 'kill $service; wait $service' EXIT"
            look = [sys.executable, "-c", _READY, f"https://localhost:{port}/readyz"]
            ready = f"{shlex.join(look)} 2>/dev/null"
            lost = f"kill -0 $service || {{ cat {service}; exit; }}"
            yield f"until {ready}; do {lost}; sleep 0.2; done"
        else:
            yield text
        yield f"code=$?; printf '%s %s\\n' {number} $code >> {codes}"
        yield f"[ $code = {step.exit_code} ] || exit"
        number += 1
