"""Runs a command in the environment of a stack, and prints its measurement.

``thoth compare`` runs this file with the Python of each environment, so it imports nothing of this
project. The executor names the description of the command in ``THOTH_COMMAND``, and only for
commands that a person gave on the command line; without it, nothing runs. Entry point:
:func:`main`.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Unit of ``ru_maxrss``: kibibytes on Linux, bytes on macOS (getrusage(2)).
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
#: Bytes that are kept of the end of the command's standard error, to explain a failure.
_KEPT_BYTES = 4000


def _program_of_other_python(arguments: "list[str]") -> "str | None":
    """Path of the program if it is a script for another Python, such as pytest of another venv.

    :param arguments: of the command, or of a shell that runs it
    """
    try:
        shell = arguments[:2] == ["/bin/sh", "-c"]
        program = [
            it for it in (shlex.split(arguments[2]) if shell else arguments) if "=" not in it
        ]
        path = shutil.which(program[0])
        with Path(path or os.devnull).open("rb") as file:
            first = file.readline(300)
    except (LookupError, OSError, ValueError):
        return None  # running it says what is wrong
    if not first.startswith(b"#!") or b"python" not in first or b"/env " in first:
        return None
    interpreter = Path(os.fsdecode(first[2:].split()[0]))
    own = interpreter.parent.resolve() == Path(sys.executable).parent.resolve()
    return None if own else path


def main() -> int:
    """Run the command once and print the result document.

    :returns: exit code of the command; 127 if it cannot be started, 2 if no command was given
    """
    place = os.environ.pop("THOTH_COMMAND", "")
    if not place:
        sys.stderr.write("error: only `thoth compare` and `thoth bisect` run this script\n")
        return 2
    description = json.loads(Path(place).read_text(encoding="utf-8"))
    results = str(Path(place).with_name("results"))
    arguments = [text.replace("{results}", results) for text in description["arguments"]]
    if (other := _program_of_other_python(arguments)) is not None:
        sys.stderr.write(
            f"error: {other} belongs to another Python than the stack: require its package for"
            " development or with --with, or run it with python -m\n"
        )
        return 127
    with tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        try:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )
        except OSError as error:
            sys.stderr.write(f"error: {arguments[0]}: {error.strerror}\n")
            return 127
        _, status, usage = os.wait4(process.pid, 0)
        elapsed_ms = 1e3 * (time.perf_counter() - began)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(max(0, errors.tell() - _KEPT_BYTES))
        sys.stderr.write(errors.read().decode("utf-8", "replace"))
    if process.returncode:
        return process.returncode if process.returncode > 0 else 128 - process.returncode
    result = {
        "elapsed": elapsed_ms,
        "rate": 1e3 / elapsed_ms,
        "unit": "runs/s",
        "repetitions": [elapsed_ms],
        "user_s": usage.ru_utime,
        "system_s": usage.ru_stime,
        "memory_bytes": usage.ru_maxrss * _MAXRSS_BYTES,
    }
    document = {"name": "command", "@parameters": description["parameters"], "@result": result}
    sys.stdout.write(json.dumps(document) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
