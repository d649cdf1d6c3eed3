"""Interpreters of this machine, and what they say of themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.packages import DEFAULT_INDEX
from pis.amun.indexes import installer_environment
from pis.amun.installer import BuildLog, failed, run_installer
from pis.amun.launchers import BuildFailed
from pis.scratch import scratch_folder

#: What an interpreter says of itself: it decides which wheels fit and which markers hold.
_ASK = """
import json, os, platform, sys, sysconfig
info = sys.implementation.version
full = "{}.{}.{}".format(*info[:3]) + ("" if info[3] == "final" else info[3][0] + str(info[4]))
print(json.dumps({
    "markers": {
        "implementation_name": sys.implementation.name,
        "implementation_version": full,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    },
    "build": [platform.python_compiler(), *platform.python_build()],
    "platform": sysconfig.get_platform(),
    "libc": platform.libc_ver(),
}))
"""


_ASK_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python on this machine.

    :param facts: what it says of itself: ``markers``, ``build``, ``platform``, ``libc``
    """

    path: str
    facts: Mapping[str, Any]

    @property
    def version(self) -> str:
        """Such as ``3.11.7``."""
        return str(self.facts["markers"]["python_full_version"])


def find_interpreter(version: str | None, log: BuildLog) -> Interpreter:
    """A Python of ``version`` on this machine; nothing is downloaded.

    :param version: ``None`` for the one that runs this
    :raises BuildFailed: ``python-not-found``
    """
    running = ".".join(map(str, sys.version_info[:3]))
    if version is None or running == version or running.startswith(f"{version}."):
        path = str(getattr(sys, "_base_executable", None) or sys.executable)
    else:
        path = _found(version, log)
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _ASK],
            capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=True,
        )  # fmt: skip
        interpreter = Interpreter(path, json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise failed("python-not-found", f"{path} does not run: {error}", log) from None
    log.write(f"Python {interpreter.version}: {path}")
    return interpreter


def _found(version: str, log: BuildLog) -> str:
    environment = installer_environment(DEFAULT_INDEX, {})
    with scratch_folder("uv") as folder:
        try:
            arguments = ("python", "find", "--system", "--no-python-downloads", "--no-config")
            return run_installer([*arguments, version], environment, folder, log).strip()
        except BuildFailed as error:
            message = f"no Python {version} on this machine"
            raised = failed("python-not-found", message, log, error.exit_code)
            raised.hint = f"install Python {version}, and see that it is in PATH"
            raise raised from None
