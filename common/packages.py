"""Package names, versions and Package URLs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NewType

from packageurl import PackageURL
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from common.errors import InvalidDocument
from common.reasons import Reason

Purl = NewType("Purl", str)

#: The name under which the public Python index is known, and what it was called before.
DEFAULT_INDEX = "pypi"
_DEFAULT_INDEX_NAMES = frozenset({"pypi", "pypi-org", "pypi-python-org"})


@dataclass(frozen=True, slots=True)
class PackageVersion:
    """One release of one package, as one named index serves it.

    The index is part of the identity: a build published elsewhere under the same
    name and version is another artefact, and may well be faster.
    """

    name: str
    version: str
    index: str
    purl: Purl


@lru_cache(maxsize=65_536)
def package_version(name: str, version: str, index: str | None = None) -> PackageVersion:
    """Normalise a release: PEP 503 name, PEP 440 version, index name.

    :raises InvalidDocument: if the version is not one by PEP 440

    >>> package_version("Keras_Preprocessing", "1.1.02").purl
    'pkg:pypi/keras-preprocessing@1.1.2'
    >>> package_version("tensorflow", "1.9.0", "avx2-builds").purl
    'pkg:pypi/tensorflow@1.9.0?index=avx2-builds'
    """
    try:
        release = str(Version(version))
    except InvalidVersion:
        raise InvalidDocument(
            Reason.INVALID_VERSION, f"{version!r} is not a version by PEP 440", field=name
        ) from None
    project = canonicalize_name(name)
    source = DEFAULT_INDEX if index is None or index in _DEFAULT_INDEX_NAMES else index
    qualifiers = None if source == DEFAULT_INDEX else {"index": source}
    purl = PackageURL("pypi", None, project, release, qualifiers).to_string()
    return PackageVersion(project, release, source, Purl(purl))


def version_key(version: str) -> str:
    """A text by which versions sort in their order, code point by code point.

    For stores that know no versions: the keys of two versions compare as the versions do by
    PEP 440, and those of equal versions are equal. What is no version comes before all others.

    >>> sorted(["2.0", "1.10", "2.0rc1", "1.9", "nightly", "2.0.post1"], key=version_key)
    ['nightly', '1.9', '1.10', '2.0rc1', '2.0', '2.0.post1']
    """
    try:
        it = Version(version)
    except InvalidVersion:
        return f"!{version}"
    release = list(it.release)
    while release and release[-1] == 0:
        release.pop()
    if it.pre is not None:
        pre = f"1{it.pre[0]}{_sortable(it.pre[1])}"
    else:
        pre = "0" if it.post is None and it.dev is not None else "2"
    return "".join(
        (
            _sortable(it.epoch),
            # The end of a list sorts before any further part of it.
            *(f".{_sortable(part)}" for part in release),
            f"!{pre}",
            "0" if it.post is None else f"1{_sortable(it.post)}",
            "1" if it.dev is None else f"0{_sortable(it.dev)}",
            *(
                f".2{_sortable(int(part))}" if part.isdigit() else f".1{part}"
                for part in (it.local or "").split(".")
                if part
            ),
            "!",
        )
    )


def _sortable(number: int) -> str:
    """Digits behind their count, so that 10 comes after 9; in order up to 99 digits."""
    digits = str(number)
    return f"{min(len(digits), 99):02}{digits}"


#: Libraries whose name for indicators is not the name of (all of) their packages.
_DISTRIBUTIONS = {
    "tensorflow": (
        "tensorflow",
        "tensorflow-cpu",
        "tensorflow-gpu",
        "intel-tensorflow",
        "tensorflow-intel",
        "tensorflow-rocm",
    ),
    "pytorch": ("torch", "pytorch"),
}
#: Packages that provide a library which an indicator measures.
MEASURED_PACKAGES = frozenset({"numpy", "jax", *(p for ps in _DISTRIBUTIONS.values() for p in ps)})


def distributions_of(component: str | None) -> tuple[str, ...]:
    """The packages that provide a measured library, the usual one first.

    >>> distributions_of("pytorch")
    ('torch', 'pytorch')
    >>> distributions_of("numpy")
    ('numpy',)
    """
    if component is None:
        return ()
    return _DISTRIBUTIONS.get(component, (component,))


@lru_cache(maxsize=131_072)
def version_of(text: str) -> Version | None:
    """``text`` as a version by PEP 440; ``None`` if it is none.

    >>> version_of("1.0-beta2"), version_of("final-2004") is None
    (<Version('1.0b2')>, True)
    """
    try:
        return Version(text)
    except InvalidVersion:
        return None
