"""Builders of release documents, as crawls and metadata dumps write them."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ingest.releases.parsing import release_of
from model.packages.releases import Release

Record = dict[str, Any]

UPLOADED = "2024-05-01T10:00:00Z"


def file_document(filename: str, content: str | None = None, **changes: Any) -> Record:
    """A file of a release; its hash is that of ``content``, else of its name."""
    digest = hashlib.sha256((content or filename).encode()).hexdigest()
    return {
        "filename": filename,
        "sha256": digest,
        "size": 1_000,
        "upload_time": UPLOADED,
        **changes,
    }


def wheel_of(name: str, version: str, tags: str = "py3-none-any", **changes: Any) -> Record:
    """A wheel of a release, such as ``flask-3.0.0-py3-none-any.whl``."""
    return file_document(f"{name.replace('-', '_')}-{version}-{tags}.whl", **changes)


def sdist_of(name: str, version: str, **changes: Any) -> Record:
    """The source distribution of a release."""
    return file_document(f"{name.replace('-', '_')}-{version}.tar.gz", **changes)


def release_document(
    name: str = "flask", version: str = "3.0.0", requires: Sequence[str] | None = (), **changes: Any
) -> Record:
    """A release with one wheel and one sdist, whose files are all known.

    :param requires: its requirements; ``None`` for unknown ones
    :param changes: other keys of the document, ``files`` included
    """
    return {
        "name": name,
        "version": version,
        "index": "pypi",
        "requires_python": ">=3.8",
        "requires_dist": None if requires is None else list(requires),
        "provides_extra": [],
        "metadata_source": "wheel-range",
        "yanked": False,
        "upload_time": UPLOADED,
        "license": "MIT",
        "files": [wheel_of(name, version), sdist_of(name, version)],
        "files_complete": True,
        **changes,
    }


def release(
    name: str = "flask", version: str = "3.0.0", requires: Sequence[str] | None = (), **changes: Any
) -> Release:
    """The same, parsed."""
    return release_of(release_document(name, version, requires, **changes))


def releases_of(packages: Mapping[str, Mapping[str, Sequence[str]]]) -> list[Release]:
    """Releases written as name → version → requirements."""
    return [
        release(name, version, requires)
        for name, versions in packages.items()
        for version, requires in versions.items()
    ]


def many_releases(versions: int, requirements: int = 10, packages: int = 100) -> list[Record]:
    """Documents in numbers: each release requires ``requirements`` other packages."""
    return [
        release_document(
            f"package-{number % packages}",
            f"{number // packages}.{number % 7}.0",
            [
                f"package-{(number + step) % packages}>={step}.0"
                for step in range(1, requirements + 1)
            ],
        )
        for number in range(versions)
    ]


def write_dump(path: Path, documents: Iterable[Record | str]) -> Path:
    """JSON lines, packed if the name says so; text is written as it is."""
    lines = [it if isinstance(it, str) else json.dumps(it) for it in documents]
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def solver_document(
    tree: Sequence[Record] = (),
    errors: Sequence[Record] = (),
    unparsed: Sequence[Record] = (),
    unresolved: Sequence[Record] = (),
    at: str = "2019-03-04T14:38:05.816406",
) -> Record:
    """The result of a solver run, as the earlier system stored it."""
    return {
        "metadata": {"analyzer": "thoth-solver", "analyzer_version": "1.1.0", "datetime": at},
        "result": {
            "environment": [],
            "tree": list(tree),
            "errors": list(errors),
            "unparsed": list(unparsed),
            "unresolved": list(unresolved),
        },
    }


def solved(
    name: str, version: str, requires: Mapping[str, str | None], index: str | None = None
) -> Record:
    """An entry of a solver's ``tree``; requirements are written as name → specifier."""
    return {
        "package_name": name,
        "package_version": version,
        "index_url": index,
        "sha256": [],
        "dependencies": [
            {"package_name": package, "required_version": specifier, "resolved_versions": []}
            for package, specifier in requires.items()
        ],
    }


def failed(name: str, version: str, message: str, index: str | None = None) -> Record:
    """An entry of a solver's ``errors``."""
    return {
        "package_name": name,
        "version": version,
        "index": index,
        "type": "command_error",
        "details": {"message": message, "stderr": "", "stdout": "", "return_code": 1},
    }
