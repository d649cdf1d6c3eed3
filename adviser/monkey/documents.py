"""Generated stacks as JSON: specifications for ``thoth inspect``, and the report of a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adviser.locks.formats import LockablePackage, LockOptions, fits, hashes_of
from adviser.monkey.strategies import (
    GeneratedStack,
    ImpossibleVersions,
    InfeasiblePair,
    SpaceReport,
)
from adviser.resolver.universe import Universe
from common.formats.locks.entries import LockEntry
from model.errors import ProjectError
from model.json_documents import digest
from model.packages.environments import Environment
from model.packages.identity import Purl
from model.packages.releases import ReleaseFile
from pis.amun.locks import Lock, pipfile_lock_of
from pis.amun.schema import InvalidSpecification
from pis.amun.specification import load_specification


@dataclass(frozen=True, slots=True)
class StackMeasurement:
    """The measurement to make on each stack.

    :param indicator: name of an indicator
    :param jobs: number of jobs of a stack
    :param image: base image, for launchers that build images
    """

    indicator: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 5
    image: str | None = None


class NotInstallable(ProjectError):
    """A stack cannot be installed for a measurement; the message names the package."""


def lock_of(
    generated: GeneratedStack,
    universe: Universe,
    files: Mapping[Purl, tuple[ReleaseFile, ...]],
    environment: Environment,
) -> Lock:
    """The lock of a stack with the hashes of its wheels for one environment.

    :param files: files of each release of the stack
    :raises NotInstallable: if a package has no fitting wheel with a hash, as only wheels are
        installed
    """
    options = LockOptions(environment, all_files=False)
    locked = []
    for choice in generated.stack.choices:
        (candidate,) = [it for it in universe.packages[choice.name] if it.purl == choice.purl]
        package = LockablePackage(
            choice.name, choice.version, candidate.index, files.get(choice.purl, ()), choice.extras
        )
        if not any(fits(it, options) and it.sha256 for it in package.files):
            text = (
                f"{choice.name} {choice.version} has no wheel with a known hash for this platform"
            )
            raise NotInstallable(text)
        hashes = tuple(hashes_of(package, options))
        locked.append(
            LockEntry(choice.name, choice.version, hashes, None, candidate.index, choice.extras)
        )
    return Lock(tuple(locked), environment.python_version)


def python_part(lock: Lock, direct: Iterable[str]) -> dict[str, Any]:
    """The part ``python`` of a specification of a locked stack.

    :param direct: names of the packages that the project requires itself
    """
    versions = {it.name: it.version for it in lock.packages}
    pins = {name: f"=={versions[name]}" for name in direct if name in versions}
    return {
        "requirements": {"packages": pins, "requires": {"python_version": lock.python_version}},
        "requirements_locked": pipfile_lock_of(lock),
    }


def specification_of(
    lock: Lock,
    direct: Iterable[str],
    measurement: StackMeasurement,
    indexes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The specification that measures a locked stack.

    :param direct: names of the packages that the project requires itself
    :param indexes: package indexes besides the default one, name to URL
    :raises NotInstallable: if the indicator cannot measure the stack
    """
    specification = {
        "script": measurement.indicator,
        **({"parameters": dict(measurement.parameters)} if measurement.parameters else {}),
        **({"base": measurement.image} if measurement.image is not None else {}),
        "batch_size": measurement.jobs,
        "python": python_part(lock, direct),
    }
    try:
        load_specification(specification, indexes)
    except InvalidSpecification as error:
        raise NotInstallable(str(error)) from error
    return specification


def specification_name(specification: Mapping[str, Any]) -> str:
    """A file name that is the same for equal specifications; the number of jobs does not count."""
    content = {name: value for name, value in specification.items() if name != "batch_size"}
    return f"{specification['script']}-{digest(content).removeprefix('sha256:')[:12]}.json"


#: Increased when a key changes its meaning or is removed, not when one is added.
MONKEY_DOCUMENT_VERSION = 1


@dataclass(frozen=True, slots=True)
class WrittenStack:
    """A generated stack with its specifications and inspections.

    :param specifications: file names by indicator
    :param inspections: identifiers of submitted inspections by file name
    :param problem: why there is no specification; ``None`` if there is one
    """

    generated: GeneratedStack
    specifications: dict[str, str]
    inspections: dict[str, str]
    problem: str | None = None

    def document(self) -> dict[str, Any]:
        """The stack as JSON values."""
        return {
            "packages": self.generated.pins,
            "reason": self.generated.reason,
            "specifications": self.specifications,
            "inspections": self.inspections,
            "problem": self.problem,
        }


def space_document(size: SpaceReport) -> dict[str, Any]:
    """The size of a space as JSON values; large numbers are texts."""
    return {
        "packages": size.packages,
        "versions": size.versions,
        "classes": size.classes,
        "product_of_direct_requirements": str(size.direct_product),
        "product_of_all_packages": str(size.raw_product),
        "valid_stacks": {
            "exact": size.valid.exact,
            "number": str(size.valid.estimate),
            "low": str(size.valid.low),
            "high": str(size.valid.high),
        },
        "diagram_states": size.states,
    }


def monkey_document(
    parameters: dict[str, Any],
    size: SpaceReport,
    stacks: Sequence[WrittenStack],
    infeasible: Sequence[InfeasiblePair],
    impossible: Sequence[ImpossibleVersions],
    sampling: str,
    unread: dict[str, int],
) -> dict[str, Any]:
    """The whole report as JSON values.

    :param unread: number of versions that were not read and so cannot occur, by package
    """
    return {
        "version": MONKEY_DOCUMENT_VERSION,
        "parameters": parameters,
        "space": space_document(size),
        "sampling": sampling or None,
        "stacks": [it.document() for it in stacks],
        "infeasible": [
            {"versions": {name: list(them) for name, them in it.versions},
             "proof": list(it.proof) or "no stack in the diagram of all valid stacks has them"}
            for it in infeasible
        ],
        "not_installable": [
            {"package": it.name, "versions": list(it.versions), "reason": it.reason}
            for it in impossible
        ],
        "unread_versions": dict(sorted(unread.items())),
    }  # fmt: skip
