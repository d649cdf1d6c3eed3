"""Runs commands of the thamos that is installed beside this Python, each in a process of its own.

A file on its own, for an environment that has nothing of ours; run it with ``-P``, for its folder
has a ``thamos.py`` too. Loading the client takes seconds, so it is loaded once, and each command
runs in a fork of this process: a line of JSON in (``folder``, ``arguments``, ``variables``,
``stdout``, ``stderr``), a line with its exit code out.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any


def main() -> None:
    """Answer lines until there are no more."""
    from thamos.cli import cli  # type: ignore[import-not-found]

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(cli, json.loads(line))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(cli: Any, asked: dict[str, Any]) -> None:
    for name, number in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(asked["folder"])
    os.environ.update(asked["variables"])
    sys.argv = ["thamos", *asked["arguments"]]
    code = 1
    try:
        cli(prog_name="thamos")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
