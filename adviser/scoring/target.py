"""The target of a request: hardware, Python version and the project's own benchmarks."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from model.changes import PerformanceChange
from model.measurements.evidence import (
    COMMAND,
    COMMAND_FILES,
    COMMAND_TEXT,
    Evidence,
    EvidencePack,
    Series,
)
from model.redaction import without_command_secrets


class Relevance(IntEnum):
    """How relevant a series is for a project, the most relevant first."""

    OWN_BENCHMARK = 0
    #: An indicator of the user, which is no command.
    OWN_INDICATOR = 1
    BUNDLED = 2
    #: A command, if the project names no benchmark at all.
    OTHER_COMMAND = 3


#: What was measured on one hardware class with one Python version.
MeasuredOn = Series | PerformanceChange


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request.

    :param hardware: digest of the hardware class, or a prefix of it; ``None`` if unknown
    :param python_version: such as ``3.11``
    :param benchmarks: name and command of the project's own benchmarks, and the digest of the files
        that the command names now; ``None`` where the project has no folder here
    """

    hardware: str | None
    python_version: str
    benchmarks: tuple[tuple[str, str, str | None], ...] = ()

    def same_hardware(self, series: MeasuredOn) -> bool:
        """Whether a series was measured on the target's hardware class."""
        if not self.hardware:
            return False
        bare = series.hardware_digest.rpartition(":")[2]
        return series.hardware_digest.startswith(self.hardware) or bare.startswith(self.hardware)

    def same_python(self, series: MeasuredOn) -> bool:
        """Whether a series was measured on the target's Python version."""
        return series.python_version == self.python_version

    def distance(self, series: MeasuredOn) -> int:
        """The number of differences from the target, 0 to 2: hardware class and Python version."""
        return (not self.same_hardware(series)) + (not self.same_python(series))


class EvidencePart(NamedTuple):
    """The series of one origin.

    :param pack: ``None`` for the own record
    :param decides: whether they may decide about the target; others are only shown
    """

    evidence: Evidence
    pack: EvidencePack | None
    decides: bool


def evidence_parts(evidence: Evidence, target: Target) -> list[EvidencePart]:
    """The evidence by origin: the own record, packs that may decide, then packs that are shown.

    A pack decides only on the hardware class of the target, and only as far as the policy allows.
    Parts are disjoint, so no pack can change the conclusions from another origin.
    """
    packs = {it.digest: it for it in evidence.packs}
    numbers: dict[tuple[bool, str], list[int]] = defaultdict(list)
    for number, series in enumerate(evidence.series):
        if series.origin is not None:
            pack = packs.get(series.origin)
            decides = pack is not None and pack.decides(series) and target.same_hardware(series)
            numbers[not decides, series.origin].append(number)
    if not numbers:
        return [EvidencePart(evidence, None, True)]
    own = [number for number, it in enumerate(evidence.series) if it.origin is None]
    return [
        EvidencePart(evidence.only(own), None, True),
        *(
            EvidencePart(evidence.only(several), packs.get(origin, EvidencePack(origin, origin)),
                         not shown)
            for (shown, origin), several in sorted(numbers.items())
        ),
    ]  # fmt: skip


class WithIndicator(Protocol):
    """A series, or a claim about one."""

    @property
    def indicator(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...


class OwnBenchmarks:
    """Tells the series of a project's own benchmarks from others.

    A changed script is another benchmark of the same name. If the files of the project are unknown,
    the files that were last measured with the same command count, even those of another project.
    """

    def __init__(self, evidence: Evidence, target: Target) -> None:
        # As their measurements have them.
        own = [
            (name, without_command_secrets(command), files)
            for name, command, files in target.benchmarks
        ]
        self._names = {command: name for name, command, _ in own}
        newest: dict[object, tuple[float, str]] = {}
        for reading in evidence.readings if self._names else ():
            series = evidence.series[reading.series]
            if series.indicator == COMMAND and series.origin is None:
                at = reading.seen_at.timestamp() if reading.seen_at is not None else 0.0
                order = at, str(series.parameters.get(COMMAND_FILES))
                command = series.parameters.get(COMMAND_TEXT)
                newest[command] = max(newest.get(command, order), order)
        self._files = {command: files for command, (_, files) in newest.items()}
        self._files |= {command: files for _, command, files in own if files}

    def ignores(self, measured: WithIndicator) -> bool:
        """Whether a series is of a command, and the project names other commands or files."""
        named = bool(self._names) and measured.indicator == COMMAND
        return named and self.name_of(measured) is None

    def name_of(self, measured: WithIndicator) -> str | None:
        """Name of the benchmark; ``None`` if the series is of no benchmark of the project."""
        command = measured.parameters.get(COMMAND_TEXT)
        if measured.indicator != COMMAND or command not in self._names:
            return None
        same_files = str(measured.parameters.get(COMMAND_FILES)) == self._files.get(command)
        return self._names[command] if same_files else None
