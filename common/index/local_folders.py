"""Indexes in a local folder: a tree of projects, or files side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from common.http.fetching import too_large
from common.index.page_parsing import PageText, parse_page
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import IndexFile, ProjectPage, contents_of
from model.packages.releases import kind_of_file


def folder_page(root: str, name: str, limit: int) -> ProjectPage:
    """The files of a project in the index at ``root``, a ``file`` URL.

    An ``index.html`` in a folder with the project's name is read like a page of a server. Without
    that page, the files in the folder are used. Without the folder, the files in the index are
    used. Files that are on no page are hashed, and hashed again after every change. Symbolic links
    that lead out of the index are not followed.

    :param limit: bytes of a page
    :raises IndexProblem: ``not_found`` if there is no file of the project, ``unreachable`` if
        the index folder is missing, ``address_refused`` if the page is outside
    """
    folder = path_of(root)
    if not folder.is_dir():
        raise IndexProblem(IndexFault.UNREACHABLE, f"{folder} is not a folder")
    now = datetime.now(UTC)
    own = [it for it in folder.iterdir() if it.is_dir() and canonicalize_name(it.name) == name]
    for project in own:
        if (page := project / "index.html").is_file():
            if not _is_within(page, folder):
                raise _outside(page.name, folder)
            if page.stat().st_size > limit:
                raise too_large(str(page), limit, "INDEX_PAGE_MB")
            text = PageText(page.read_bytes(), "text/html", f"{project.as_uri()}/")
            return parse_page(name, text, now)
    files = sorted(
        (it for location in own or [folder] for it in _files(location, name, folder)),
        key=lambda it: it.filename,
    )
    if not files and not own:
        raise IndexProblem(IndexFault.NOT_FOUND, f"no file of {name} is in {folder}")
    return ProjectPage(name, now, contents_of(files, []))


def path_of(url: str) -> Path:
    """The path of a ``file`` URL."""
    return Path(unquote(urlsplit(url).path))


def local_path(root: str, file: IndexFile) -> Path:
    """The path of a file of the index at ``root``; the file must be inside the index.

    :raises IndexProblem: ``not_found``, ``address_refused``
    """
    path, folder = path_of(file.url).resolve(), path_of(root)
    if not _is_within(path, folder):
        raise _outside(file.filename, folder)
    if not path.is_file():
        raise IndexProblem(IndexFault.NOT_FOUND, f"{path} is not a file")
    return path


def _is_within(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _outside(what: str, folder: Path) -> IndexProblem:
    return IndexProblem(
        IndexFault.ADDRESS_REFUSED, f"{what}: the index refers to a file outside of {folder}"
    )


def _files(folder: Path, name: str, root: Path) -> Iterator[IndexFile]:
    from pypi_simple import UnparsableFilenameError, parse_filename  # slow, and seldom needed

    for path in folder.iterdir():
        try:
            project, version, _ = parse_filename(path.name, name)
        except UnparsableFilenameError:
            continue
        if canonicalize_name(project) != name or not path.is_file():
            continue
        kind = kind_of_file(path.name)
        if kind == "other":
            continue
        if not _is_within(path, root):
            # Listed, so that a download reports why it is refused.
            yield IndexFile(path.name, version, kind, None, url=path.absolute().as_uri())
            continue
        about = path.stat()
        digest = _sha256(path, about.st_mtime_ns, about.st_size)
        size = about.st_size
        yield IndexFile(path.name, version, kind, digest, size, url=path.absolute().as_uri())


@lru_cache(maxsize=4096)
def _sha256(path: Path, changed_ns: int, size: int) -> str:
    """SHA-256 of a file; its size and the time of its last change are part of the cache key."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
