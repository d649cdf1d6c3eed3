"""Notes that follow from the files of the advised stack: other Pythons, and builds for GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from adviser.advise import Advice
from adviser.reports.manifests import Files
from adviser.reports.note_codes import NoteCode
from adviser.reports.notes import ReportNote
from adviser.reports.version_rationale import candidates_of
from adviser.resolver.specifiers import admits
from adviser.scoring.assessment_types import NoteLevel
from model.packages.candidates import Candidate, ExclusionReason
from model.packages.identity import version_of
from model.packages.releases import wheel_tags
from model.packages.wheels import installed_wheel, pythons_of
from model.text import counted, first_few

#: Why a version must be built or cannot be installed, although it has wheels for other Pythons.
_OTHER_PYTHON = frozenset(
    {ExclusionReason.PYTHON_TAG, ExclusionReason.ABI_TAG, ExclusionReason.SDIST_TOO_OLD}
)
#: Packages that only builds of PyTorch for GPUs require.
_CUDA_PARTS = re.compile(r"(?:nvidia|cuda)-.+|triton")
_NAMED = 5


def file_notes(advice: Advice, files: Files) -> Iterator[ReportNote]:
    """All notes about files.

    :param files: of the releases of the advised stacks
    """
    yield from _other_python(advice, files)
    yield from _cuda_build(advice, files)


def _other_python(advice: Advice, files: Files) -> Iterator[ReportNote]:
    """A note about the nearest Python for which most of the packages without a wheel have one."""
    environment, stack = advice.request.environment, advice.best
    chosen = candidates_of(advice.universe, stack) if stack else {}
    pythons = _of_stack(advice, chosen, files) if stack else _of_conflict(advice)
    counts = Counter(minor for minors in pythons.values() for minor in minors)
    counts = Counter({it: n for it, n in counts.items() if _may_run(advice, chosen, f"3.{it}")})
    own = version_of(environment.python_version)
    if not counts or own is None:
        return
    minor = max(counts, key=lambda it: (counts[it], -abs(it - own.minor), it))
    names = sorted(name for name, minors in pythons.items() if minor in minors)
    packages = counted(len(names), "package has", "packages have")
    message = (
        f"{packages} wheels for Python 3.{minor}, but not for {environment.python_version}:"
        f" add `--python 3.{minor}` ({first_few(names, _NAMED)})"
    )
    yield ReportNote(NoteCode.OTHER_PYTHON, NoteLevel.WARNING, message)


def _may_run(advice: Advice, names: Iterable[str], python: str) -> bool:
    """Whether the project supports a Python, and a suitable version of each package does."""
    project = (advice.request.project.requires_python or "").split("||")
    universe = advice.universe
    wanted: dict[str, list[str]] = {}
    for root in universe.roots:
        wanted.setdefault(root.name, []).append(universe.specifier_of(root))
    return any(admits(it, python) for it in project) and all(
        any(
            admits(it.requires_python or "", python)
            and all(admits(text, it.version) for text in wanted.get(name, ()))
            for it in universe.packages[name]
        )
        for name in names
    )


def _of_stack(
    advice: Advice, chosen: Mapping[str, Candidate], files: Files
) -> dict[str, frozenset[int]]:
    """Minor versions of Python 3 that the wheels of versions without a fitting wheel are for."""
    return {
        name: pythons_of(wheel_tags(files.get(it.purl, ())), advice.request.environment)
        for name, it in chosen.items()
        if it.wheel_mismatch in _OTHER_PYTHON
    }


def _of_conflict(advice: Advice) -> dict[str, frozenset[int]]:
    """The same for versions that only the environment excludes from a conflict's packages."""
    conflict, pythons = advice.resolution.conflict, dict[str, frozenset[int]]()
    steps = [it for it in conflict.steps if it.kind in ("asked", "requires")] if conflict else []
    for name in dict.fromkeys(it.required for it in steps if it.required):
        wanted = [it.specifier for it in steps if it.required == name]
        messages = [
            it.message.partition(", this ")[0]
            for it in advice.snapshot.excluded.get(name, ())
            if it.reason in _OTHER_PYTHON and all(admits(text, it.version) for text in wanted)
        ]
        minors = (int(it) for text in messages for it in re.findall(r"\bcp3(\d+)\b", text))
        pythons[name] = frozenset(minors)
    return pythons


def _cuda_build(advice: Advice, files: Files) -> Iterator[ReportNote]:
    """A note about the download that a build of PyTorch for CPUs saves where there is no GPU."""
    environment, stack = advice.request.environment, advice.best
    if stack is None or environment.cuda is not None:
        return
    candidates = candidates_of(advice.universe, stack)
    extras = {it.name: it.extras for it in stack.choices}
    pending = [it.name for it in advice.universe.roots]
    kept: set[str] = set()
    while pending:
        name = pending.pop()
        if name in kept or name not in candidates:
            continue
        kept.add(name)
        required = (it.name for it in candidates[name].requirements(extras[name]))
        pending += (it for it in required if name != "torch" or not _CUDA_PARTS.fullmatch(it))
    sizes = {}
    for name in candidates.keys() - kept:
        wheel = installed_wheel(files.get(candidates[name].purl, ()), environment)
        if wheel is not None and wheel.size_bytes is not None:
            sizes[name] = wheel.size_bytes
    if sizes:
        packages = counted(len(sizes), "package")
        message = (
            f"there is no GPU here, and torch is a build for CUDA: its build for CPUs saves the"
            f" download of {packages} ({sum(sizes.values()) / 1e9:.1f} GB). To take it, make"
            " PyTorch's index of builds for CPUs the owner of torch (INDEX_NAMESPACES), as"
            " docs/guides/advise.md shows; for a machine with a GPU, add `--cuda`"
        )
        link = "docs/guides/advise.md#pytorch-without-a-gpu"
        version = candidates["torch"].version
        yield ReportNote(NoteCode.CUDA_BUILD, NoteLevel.INFO, message, "torch", version, link)
