"""Sets of requirements of real projects, and what ``uv pip compile`` makes of them.

``requirement_sets.json`` lists them. Timed sets are those of :mod:`benchmarks.advice`.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.fresh_stores import UV

_LIST = Path(__file__).with_name("requirement_sets.json")
_PIN = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TargetMachine:
    """Where a stack is to run, in the terms of both programs.

    :param python: such as ``3.11``
    :param machine: such as ``x86_64``
    """

    python: str
    machine: str

    @property
    def of_thoth(self) -> tuple[str, ...]:
        """Options of ``thoth advise``."""
        return ("--python", self.python, "--platform", f"manylinux_2_28_{self.machine}")

    @property
    def of_uv(self) -> tuple[str, ...]:
        """Options of ``uv pip compile``."""
        platform = f"{self.machine}-manylinux_2_28"
        return ("--python-version", self.python, "--python-platform", platform)


LINUX = TargetMachine("3.11", "x86_64")


@dataclass(frozen=True, slots=True)
class RequirementSet:
    """What a project requires.

    :param timed: measured by ``make bench``
    :param backtracks: uv tries many versions before it finds a stack
    """

    name: str
    requirements: tuple[str, ...]
    timed: bool = False
    backtracks: bool = False

    @property
    def direct(self) -> tuple[str, ...]:
        """Names of the required packages, in declared order."""
        return tuple(canonicalize_name(Requirement(it).name) for it in self.requirements)

    def write(self, folder: Path) -> Path:
        """Write ``requirements.in`` into a folder of its own below ``folder``."""
        path = folder / self.name / "requirements.in"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{it}\n" for it in self.requirements), encoding="utf-8")
        return path


def requirement_sets(names: Sequence[str] = ()) -> list[RequirementSet]:
    """The sets with these names, or all."""
    entries = json.loads(_LIST.read_text("utf-8"))["sets"]
    sets = {it["name"]: RequirementSet(**it | {"requirements": tuple(it["requirements"])})
            for it in entries}  # fmt: skip
    return [sets[it] for it in names] if names else list(sets.values())


def compile_command(requirements: Path, target: TargetMachine, *options: str) -> tuple[str, ...]:
    """``uv pip compile`` of a file, which prints only pins."""
    quiet = ("--quiet", "--no-header", "--no-annotate", "--no-config")
    return (UV, "pip", "compile", *quiet, *target.of_uv, *options, str(requirements))


def pins_of(text: str) -> dict[str, str]:
    """Versions by name in requirements such as ``flask[async]==3.1``."""
    return {canonicalize_name(name): version for name, version in _PIN.findall(text)}
