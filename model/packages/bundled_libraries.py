"""Libraries that wheels bundle, and what a release changed in them: context of a measurement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from model.declared_fields import Field
from model.json_fields import Fields
from model.packages.identity import Purl, package_version_of
from model.text import first_few

#: Limits of a document; the longest lists are those of crates in wheels with Rust code.
MAX_LIBRARIES, MAX_LENGTH = 1_000, 200
#: Libraries whose changes are named first, because many programs spend their time in them.
_FIRST = re.compile(
    r"(lib|one)?(openblas|mkl|blis|lapack|dnn|gomp|i?omp5?$|tbb|llvm|cu(da|blas|dnn))"
)
_MOST_NAMED = 5
#: What a change of bundled libraries says about a change of speed.
CONTEXT = "context, not shown to be the cause"


@dataclass(frozen=True, slots=True, order=True)
class BundledLibrary:
    """A library inside a wheel."""

    name: Annotated[str, Field("Name of the library.", "OpenBLAS")]
    version: Annotated[str | None, Field("Its version; null if unknown.", "0.3.29")]
    source: Annotated[
        str, Field("File of the wheel that says so.", "numpy.libs/libscipy_openblas64_-56d6.so")
    ]


#: The libraries of distributions, each given as ``NAME==VERSION``; a distribution without any has
#: no entry.
Bundled = Mapping[str, Sequence[BundledLibrary]]
#: What a version of a package bundles otherwise than another one, by name of the package.
Steps = Mapping[str, str]


def bundled_of(document: Fields) -> Bundled:
    """Read the libraries that an inspection's build recorded.

    :raises InvalidDocument: if an entry has another form
    """
    return {
        release: tuple(
            BundledLibrary(
                library.required_text("name", most=MAX_LENGTH),
                library.text("version", MAX_LENGTH),
                library.required_text("source", most=MAX_LENGTH),
            )
            for library in document.each(release)
        )
        for release in sorted(document)
    }


def bundled_document(bundled: Bundled) -> dict[str, list[dict[str, str | None]]]:
    """The JSON form, which :func:`bundled_of` reads."""
    return {release: [asdict(it) for it in them] for release, them in sorted(bundled.items())}


def known_bundled(inspections: Iterable[tuple[Iterable[Purl], Bundled]]) -> Bundled:
    """What is known of the releases in the stacks of inspections, sorted.

    A release of which an inspection recorded no library has an empty entry, if other releases of
    its package have some. The first inspection of a release counts.

    :param inspections: packages of the stack, and what its build recorded
    """
    known: dict[str, Sequence[BundledLibrary]] = {}
    for purls, bundled in inspections:
        for package in map(package_version_of, purls):
            release = f"{package.name}=={package.version}"
            known.setdefault(release, tuple(bundled.get(release, ())))
    names = {release.partition("==")[0] for release, libraries in known.items() if libraries}
    return {it: known[it] for it in sorted(known) if it.partition("==")[0] in names}


def bundled_changes(bundled: Bundled, package: str, ours: str, theirs: str) -> str | None:
    """What a version of a package bundles otherwise than another one; context, never a cause.

    :param ours: the version that is spoken of
    :returns: ``None`` if nothing changed, or if nothing is known of a version

    >>> bundled_changes({
    ...     "numpy==2.3.0": [BundledLibrary("OpenBLAS", "0.3.29", "a")],
    ...     "numpy==2.2.0": [BundledLibrary("OpenBLAS", "0.3.28", "b")],
    ... }, "numpy", "2.3.0", "2.2.0")
    'numpy 2.3.0 bundles OpenBLAS 0.3.29 instead of 0.3.28'
    """
    here, there = (bundled.get(f"{package}=={version}") for version in (ours, theirs))
    if here is None or there is None:
        return None
    parts = list(_differences(_versions(here), _versions(there)))
    return f"{package} {ours} bundles {first_few(parts, _MOST_NAMED)}" if parts else None


def bundled_steps(
    bundled: Bundled, versions: Iterable[tuple[str, str | None, str | None]]
) -> Steps:
    """:func:`bundled_changes` by package, of those that differ between two stacks.

    :param versions: name of each package, and its versions in the stack that is spoken of and in
        the other one; ``None`` where it lacks the package
    """
    texts = (
        (name, bundled_changes(bundled, name, ours, theirs))
        for name, ours, theirs in versions
        if ours and theirs
    )
    return {name: text for name, text in texts if text is not None}


def context_lines(steps: Steps, names: Iterable[str]) -> list[str]:
    """The steps of some packages as lines for people."""
    return [f"{steps[it]} ({CONTEXT})" for it in sorted(steps.keys() & set(names))]


def _versions(libraries: Sequence[BundledLibrary]) -> dict[str, list[str]]:
    versions: dict[str, list[str]] = {}
    for it in sorted(libraries, key=lambda it: (it.name, it.version or "")):
        versions.setdefault(it.name, []).extend(filter(None, [it.version]))
    return versions


def _differences(ours: Mapping[str, list[str]], theirs: Mapping[str, list[str]]) -> Iterator[str]:
    """One text for each library that differs, the important ones first."""
    names = sorted(ours.keys() | theirs.keys(), key=lambda it: (not _FIRST.match(it.lower()), it))
    for name in names:
        here, there = ours.get(name), theirs.get(name)
        if here is None:
            yield f"no {name}"
        elif there is None:
            yield f"also {' '.join([name, *here])}"
        elif here != there and here and there:
            yield f"{name} {' and '.join(here)} instead of {' and '.join(there)}"
