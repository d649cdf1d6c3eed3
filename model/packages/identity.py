"""Package names, versions and Package URLs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NewType
from urllib.parse import urlsplit

from packageurl import PackageURL
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from model.declared_fields import Field
from model.errors import InvalidDocument, Reason

Purl = NewType("Purl", str)

#: Name of the public Python index, and its earlier names.
DEFAULT_INDEX = "pypi"
_DEFAULT_INDEX_NAMES = frozenset({"pypi", "pypi-org", "pypi-python-org"})
_PROJECT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_PUBLIC_INDEX = re.compile(r'^PYPI_SIMPLE_ENDPOINT.*= "(.+)"$', re.MULTILINE)


@cache
def public_index_url() -> str:
    """URL of the public Python index as pypi-simple states it, without a trailing slash.

    The URL is read from the source text of pypi-simple, because importing that package takes 0.2 s
    at the start of a command: it loads requests, pydantic and Beautiful Soup.
    """
    spec = find_spec("pypi_simple")
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    match = _PUBLIC_INDEX.search(source)
    if match is not None:
        return match[1].rstrip("/")
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    return PYPI_SIMPLE_ENDPOINT.rstrip("/")


@lru_cache(maxsize=4096)
def index_identity(url: str) -> str:
    """The normalised URL of an index: indexes with equal URLs are the same, whatever their names.

    Credentials, the case of the host, the default port, the query and a slash at the end do not
    matter. http counts as https. The former host of the public index redirects to its present host.

    >>> index_identity("HTTP://me:secret@Index.example:80/simple/?token=1")
    'https://index.example/simple'
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return url
    host, public = (parts.hostname or "").rstrip("."), urlsplit(public_index_url()).hostname or ""
    name, _, domain = public.rpartition(".")
    if host == f"{name}.python.{domain}":
        host = public
    is_web = parts.scheme in ("http", "https")
    own_port = "" if port is None or (is_web and port in (80, 443)) else f":{port}"
    scheme = "https" if is_web else parts.scheme
    return f"{scheme}://{host}{own_port}{parts.path.rstrip('/')}"


def name_of_index(url: str) -> str:
    """A unique name for an index that is known by its URL only.

    >>> name_of_index("https://index.example/simple/")
    'index.example-simple-c45692fc'
    """
    identity = index_identity(url)
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", identity.partition("://")[2]).strip("-")
    return f"{slug[:100]}-{sha256(identity.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class PackageVersion:
    """One release of one package on one named index.

    The index is part of the identity: a build that another index publishes under the same name and
    version is a different artefact, and may well be faster.
    """

    name: str
    version: str
    index: str
    purl: Purl


@lru_cache(maxsize=65_536)
def is_project_name(text: str) -> bool:
    """Whether ``text`` can be the name of a package or of an extra.

    >>> is_project_name("zope.interface"), is_project_name("-d")
    (True, False)
    """
    return _PROJECT_NAME.match(text) is not None


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


@lru_cache(maxsize=65_536)
def package_version_of(purl: Purl) -> PackageVersion:
    """The release that a Package URL of :func:`package_version` names.

    >>> release = package_version_of(Purl("pkg:pypi/torch@2.9.0%2Bcpu?index=pytorch"))
    >>> release.name, release.version, release.index
    ('torch', '2.9.0+cpu', 'pytorch')
    """
    parsed = PackageURL.from_string(purl)
    index = dict(parsed.qualifiers or {}).get("index", DEFAULT_INDEX)
    return PackageVersion(parsed.name, parsed.version or "", index, purl)


def version_key(version: str) -> str:
    """A sort key for stores that cannot compare versions.

    Sorting keys as texts, by code point, sorts their versions as PEP 440 does. Equal versions have
    equal keys. Texts that are not versions sort before all versions.

    >>> sorted(["2.0", "1.10", "2.0rc1", "1.9", "nightly", "2.0.post1"], key=version_key)
    ['nightly', '1.9', '1.10', '2.0rc1', '2.0', '2.0.post1']
    """
    try:
        parsed = Version(version)
    except InvalidVersion:
        return f"!{version}"
    release = list(parsed.release)
    while release and release[-1] == 0:
        release.pop()
    if parsed.pre is not None:
        pre = f"1{parsed.pre[0]}{_sortable(parsed.pre[1])}"
    else:
        pre = "0" if parsed.post is None and parsed.dev is not None else "2"
    return "".join(
        (
            _sortable(parsed.epoch),
            # The end of the release sorts before any further part.
            *(f".{_sortable(part)}" for part in release),
            f"!{pre}",
            "0" if parsed.post is None else f"1{_sortable(parsed.post)}",
            "1" if parsed.dev is None else f"0{_sortable(parsed.dev)}",
            *(
                f".2{_sortable(int(part))}" if part.isdigit() else f".1{part}"
                for part in (parsed.local or "").split(".")
                if part
            ),
            "!",
        )
    )


def _sortable(number: int) -> str:
    """Sort key of a number: its count of digits (at most 99), then the digits; 10 is after 9."""
    digits = str(number)
    return f"{min(len(digits), 99):02}{digits}"


#: Libraries whose name in indicators differs from the names of their packages.
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
#: Packages by the module that scripts may name instead.
_MODULES = {
    "PIL": ("pillow",),
    "cv2": (
        "opencv-python", "opencv-python-headless", "opencv-contrib-python",
        "opencv-contrib-python-headless",
    ),
    "skimage": ("scikit-image",),
    "sklearn": ("scikit-learn",),
    "yaml": ("pyyaml",),
}  # fmt: skip
#: Packages that provide a library measured by an indicator.
MEASURED_PACKAGES = frozenset(
    {
        "jax", "lightgbm", "lxml", "msgspec", "numba", "numpy", "onnxruntime", "orjson", "pandas",
        "pillow", "polars", "pyarrow", "pydantic", "scikit-learn", "scipy", "sqlalchemy",
        "tokenizers", "xgboost", *(it for names in _DISTRIBUTIONS.values() for it in names),
    }
)  # fmt: skip


def distributions_of(component: str | None) -> tuple[str, ...]:
    """Packages that provide a measured library, most common first.

    >>> distributions_of("pytorch"), distributions_of("sklearn")
    (('torch', 'pytorch'), ('scikit-learn', 'sklearn'))
    >>> distributions_of("Keras_Preprocessing")
    ('keras-preprocessing',)
    """
    if component is None:
        return ()
    name = canonicalize_name(component)
    return _DISTRIBUTIONS.get(name) or (*_MODULES.get(component, ()), name)


@lru_cache(maxsize=131_072)
def version_of(text: str) -> Version | None:
    """``text`` as a version by PEP 440, or ``None`` if it is not one.

    >>> version_of("1.0-beta2"), version_of("final-2004") is None
    (<Version('1.0b2')>, True)
    """
    try:
        return Version(text)
    except InvalidVersion:
        return None


def version_order(text: str) -> tuple[bool, Version, str]:
    """Sort key of a version by PEP 440; texts that are not versions are the lowest.

    >>> sorted(["2.0", "1.10", "nightly", "2.0rc1"], key=version_order)
    ['nightly', '1.10', '2.0rc1', '2.0']
    """
    parsed = version_of(text)
    return parsed is not None, parsed or Version("0"), text


@lru_cache(maxsize=131_072)
def series_of(text: str) -> tuple[int, ...]:
    """Epoch and first two parts of a version; empty for a text that is no version.

    >>> series_of("1.4.2"), series_of("2"), series_of("nightly")
    ((0, 1, 4), (0, 2, 0), ())
    """
    parsed = version_of(text)
    return (parsed.epoch, *(*parsed.release, 0)[:2]) if parsed else ()


def same_version(first: str | None, second: str | None) -> bool:
    """Whether two texts denote the same version; ``None`` equals only ``None``.

    >>> same_version("1.0", "1.0.0"), same_version("1.0", None)
    (True, False)
    """
    if first == second or first is None or second is None:
        return first == second
    parsed = version_of(first)
    return parsed is not None and parsed == version_of(second)


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A package that differs between two locks or stacks; ``None`` where it is absent."""

    name: Annotated[str, Field("Normalised name.", "numpy")]
    old: Annotated[str | None, Field("Version in the old lock.", "2.3.5")]
    new: Annotated[str | None, Field("Version in the new lock.", "2.4.6")]


def changes_between(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[VersionChange, ...]:
    """The packages that differ by PEP 440, sorted by name.

    :param old: version by name
    """
    return tuple(
        VersionChange(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if not same_version(old.get(name), new.get(name))
    )
