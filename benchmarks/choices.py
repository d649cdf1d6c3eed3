"""What is advised for real sets of requirements, beside what ``uv pip compile`` chooses.

Both programs answer within minutes of each other, for type ``latest``. A direct requirement must
not be older than uv's, except for a reason that the report states. uv must accept every lock as
constraints, and pip must accept it with ``--require-hashes``. pip can try this only for the
machine that it runs on; for others, metadata alone decides.

Run as ``python -m benchmarks.choices``. Results are JSON files in a folder; a set that has one is
not tried again without ``--again``.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import Version
from platformdirs import user_cache_path

from benchmarks.commands import FinishedCommand, run_command
from benchmarks.homes import THOTH, UV, FreshHome, fresh_home
from benchmarks.requirement_sets import (
    LINUX,
    RequirementSet,
    TargetMachine,
    compile_command,
    pins_of,
    requirement_sets,
)
from common.logs import set_up_logs

TARGETS = (LINUX, TargetMachine("3.13", "aarch64"))
#: Time limit of pip, in seconds: it downloads every file, to compare its hash.
_PIP_S = 1800.0
_PIP = "pip with hashes"


@dataclass(frozen=True, slots=True)
class DirectChoice:
    """A direct requirement of which both programs chose different versions.

    :param reason: what the report says about our version
    """

    name: str
    ours: str | None
    theirs: str | None
    reason: str

    @property
    def is_older(self) -> bool:
        """Whether uv chose a newer version."""
        if self.ours is None or self.theirs is None:
            return self.ours is None and self.theirs is not None
        return Version(self.ours) < Version(self.theirs)


@dataclass(frozen=True, slots=True)
class SetChoices:
    """The outcome for one set on one target.

    :param advised: versions by name; empty if no stack was advised
    :param messages: warnings and errors of the report, and the end of standard error
    :param refused: what a program said when it refused the lock, by the name of the check
    :param seconds: of ``thoth advise`` and of uv; their caches are shared by all sets
    """

    name: str
    target: str
    advised: Mapping[str, str]
    compiled: Mapping[str, str]
    direct: Sequence[DirectChoice]
    messages: Sequence[str]
    refused: Mapping[str, str]
    checks: Sequence[str]
    seconds: tuple[float, float]
    load: float

    def faults(self) -> list[str]:
        """Faults, and older versions whose stated reasons a person must read."""
        lines = [f"{check}: {message}" for check, message in self.refused.items()]
        if self.compiled and not self.advised:
            lines.append("no stack, and uv has one: " + " | ".join(self.messages))
        newer = False
        for direct in self.direct:
            if self.advised and direct.is_older:
                place = "after one that is newer than uv's" if newer else "no earlier one is newer"
                versions = f"{direct.name} {direct.ours}, uv {direct.theirs}"
                lines.append(f"{versions} ({place}): {direct.reason}")
            newer = newer or not direct.is_older
        return lines


def main(arguments: Sequence[str] = ()) -> None:
    """Compare and print; ends with 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choices")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME", help="only this set; repeatable",
        choices=[it.name for it in requirement_sets()],
    )  # fmt: skip
    parser.add_argument("--target", choices=[_name(it) for it in TARGETS], help="only this one")
    parser.add_argument("--again", action="store_true", help="try sets again that have a result")
    parser.add_argument("--without-pip", action="store_true", help="download nothing with pip")
    parser.add_argument("--output", type=Path, help="JSON file for all results")
    parser.add_argument("--folder", type=Path, default=user_cache_path("thoth-benchmarks"),
                        help="folder of results and caches")  # fmt: skip
    options = parser.parse_args(arguments)
    chosen = [it for it in TARGETS if options.target in (None, _name(it))]
    outcomes: list[SetChoices] = []
    with fresh_home() as home:
        comparison = _Comparison(home, options.folder, with_pip=not options.without_pip)
        for target in chosen:
            sets = requirement_sets(options.set)
            for number, requirements in enumerate(sets, start=1):
                outcome = None if options.again else comparison.stored(requirements, target)
                if outcome is None:
                    outcome = comparison.run(requirements, target)
                outcome = comparison.checked_by_pip(outcome, requirements, target)
                outcomes.append(outcome)
                _print(outcome, f"{number}/{len(sets)}")
    _summarise(outcomes)
    if options.output is not None:
        _write(options.output, [asdict(it) for it in outcomes])
    raise SystemExit(1 if any(it.faults() for it in outcomes) else 0)


class _Comparison:
    """Runs both programs, with caches that all sets share."""

    def __init__(self, home: FreshHome, folder: Path, *, with_pip: bool) -> None:
        self._home = home
        self._folder = folder
        self._with_pip = with_pip
        (folder / "choices").mkdir(parents=True, exist_ok=True)

    def stored(self, chosen: RequirementSet, target: TargetMachine) -> SetChoices | None:
        """The outcome of an earlier run."""
        path = self._result(chosen, target)
        return _read(path) if path.exists() else None

    def run(self, chosen: RequirementSet, target: TargetMachine) -> SetChoices:
        """Compare both programs on a set, and keep the outcome."""
        load = os.getloadavg()[0]
        lock = self._lock(chosen, target)
        lock.unlink(missing_ok=True)
        path = chosen.write(lock.parents[1])
        cache = ("--cache-dir", str(self._folder / "uv"))
        compiled = run_command(compile_command(path, target, *cache))
        environ = self._home.environ | {"INDEX_CACHE": str(self._folder / "advice")}
        # The choice counts here, however busy the machine is.
        options = ("--fetch", "--time-limit", "120", "--json")
        advise = (THOTH, "advise", str(path), *target.of_thoth, *options)
        done = run_command((*advise, "-o", str(lock)), environ)
        report = _report(done)
        checks: dict[str, FinishedCommand] = {}
        if lock.exists():
            constrained = compile_command(path, target, *cache, "--constraint", str(lock))
            checks["uv with constraints"] = run_command(constrained)
        products = report.get("products") or [{"packages": []}]
        packages = {it["name"]: it for it in products[0]["packages"]}
        outcome = SetChoices(
            chosen.name,
            _name(target),
            advised={name: it["version"] for name, it in packages.items()},
            compiled=pins_of(compiled.stdout) if compiled.status == 0 else {},
            direct=_different(chosen.direct, packages, pins_of(compiled.stdout)),
            messages=[*_warnings(report), *_last_lines(done, 2)],
            refused=_refusals(checks),
            checks=list(checks),
            seconds=(done.wall_s, compiled.wall_s),
            load=load,
        )
        _write(self._result(chosen, target), asdict(outcome))
        return outcome

    def checked_by_pip(
        self, outcome: SetChoices, chosen: RequirementSet, target: TargetMachine
    ) -> SetChoices:
        """The outcome with pip's check of the lock, if pip can and shall check it."""
        lock = self._lock(chosen, target)
        if _PIP in outcome.checks or target != LINUX or not self._with_pip or not lock.exists():
            return outcome
        refused = {**outcome.refused, **_refusals({_PIP: self._pip(lock)})}
        outcome = replace(outcome, checks=[*outcome.checks, _PIP], refused=refused)
        _write(self._result(chosen, target), asdict(outcome))
        return outcome

    def _lock(self, chosen: RequirementSet, target: TargetMachine) -> Path:
        return self._folder / "projects" / _name(target) / chosen.name / "requirements.txt"

    def _pip(self, lock: Path) -> FinishedCommand:
        """Resolve a lock with pip, in an environment of its own, without installing it."""
        python = self._folder / "pip" / "bin" / "python"
        if not python.exists():
            version = ("--seed", "--python", LINUX.python)
            run_command((UV, "venv", "--quiet", *version, str(python.parents[1])))
        temporary = self._folder / "temporary"
        temporary.mkdir(exist_ok=True)
        quiet = ("--quiet", "--disable-pip-version-check", "--no-cache-dir")
        install = (str(python), "-m", "pip", "install", *quiet, "--dry-run", "--require-hashes")
        environ = os.environ | {"TMPDIR": str(temporary)}
        return run_command((*install, "-r", str(lock)), environ, timeout_s=_PIP_S)

    def _result(self, chosen: RequirementSet, target: TargetMachine) -> Path:
        return self._folder / "choices" / f"{chosen.name}-{_name(target)}.json"


def _different(
    direct: Iterable[str], packages: Mapping[str, Any], theirs: Mapping[str, str]
) -> list[DirectChoice]:
    """Direct requirements with different versions, in declared order."""
    choices = []
    for name in direct:
        ours = packages.get(name)
        version = ours["version"] if ours else None
        if version != theirs.get(name):
            reason = f"{ours['why']['code']}: {ours['why']['message']}" if ours else "not advised"
            choices.append(DirectChoice(name, version, theirs.get(name), reason))
    return choices


def _refusals(checks: Mapping[str, FinishedCommand]) -> dict[str, str]:
    """The last lines of the programs that refused a lock."""
    return {
        name: " ".join(_last_lines(it, 6)) or f"exit code {it.status}"
        for name, it in checks.items()
        if it.status
    }


def _report(done: FinishedCommand) -> dict[str, Any]:
    try:
        return dict(json.loads(done.stdout)["result"]["report"])
    except (ValueError, KeyError, TypeError):
        return {}


def _warnings(report: Mapping[str, Any]) -> list[str]:
    notes = [*report.get("stack_info", ()), *_justifications(report)]
    return [it["message"] for it in notes if it.get("type") in ("WARNING", "ERROR")]


def _justifications(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [note for it in report.get("products") or () for note in it["justification"]]


def _last_lines(done: FinishedCommand, count: int) -> list[str]:
    return [line[:500] for line in done.stderr.strip().splitlines()[-count:]]


def _name(target: TargetMachine) -> str:
    return f"{target.python}-{target.machine}"


def _read(path: Path) -> SetChoices:
    kept = json.loads(path.read_text("utf-8"))
    return SetChoices(**kept | {"direct": [DirectChoice(**it) for it in kept["direct"]]})


def _write(path: Path, document: object) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def _print(outcome: SetChoices, place: str) -> None:
    same = sum(outcome.compiled.get(name) == it for name, it in outcome.advised.items())
    print(
        f"{place:>6} {outcome.name:<22}{outcome.target:<14}{len(outcome.advised):4} packages,"
        f" {same} as uv; direct: {sum(it.is_older for it in outcome.direct)} older,"
        f" {sum(not it.is_older for it in outcome.direct)} newer; {outcome.seconds[0]:.1f} s,"
        f" uv {outcome.seconds[1]:.1f} s, load {outcome.load:.1f}",
        flush=True,
    )
    for line in outcome.faults():
        print(f"{'':7}{line}", flush=True)


def _summarise(outcomes: Sequence[SetChoices]) -> None:
    faulty = [it for it in outcomes if it.faults()]
    compared = [it for it in outcomes if it.advised and it.compiled]
    same = [it for it in compared if not it.direct]
    print(
        f"{len(outcomes)} outcomes; {len(compared)} with a stack of both programs, {len(same)} of"
        f" these with the same direct requirements; {len(faulty)} that a person must look at"
    )
    for check in sorted({name for it in outcomes for name in it.checks}):
        tried = [it for it in outcomes if check in it.checks]
        accepted = sum(check not in it.refused for it in tried)
        print(f"  {check}: {accepted} of {len(tried)} accepted")


if __name__ == "__main__":
    import sys

    set_up_logs()
    main(sys.argv[1:])
