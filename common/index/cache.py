"""Cache of an index on disk: pages with their validators, and metadata by file hash.

All homes of a user share the cache, and several processes may use it at the same time. Files are
replaced as a whole, and damaged files count as missing. A page is stored with the summary of its
versions, so that most uses neither decompress nor parse it.

The library hishel was tried. One of its modes ignores the age in a response. Its other mode uses
the age in the response instead of the caller's, and caches nothing from an index that sends neither
validators nor an age. In this cache, the caller decides how old a page may be.

File URLs may contain tokens that are needed for downloads, so pages are stored unchanged, readable
for this user only. A page with a user or a password in a URL is never stored.
"""

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import zstandard

from common.files import PRIVATE, private_folder, write_atomically
from common.index.configuration import Index
from common.index.html_links import plain
from common.index.page_parsing import JsonPage, PackedPage, listed_page, parse_page
from common.index.release_metadata import MetadataRead
from model.errors import IndexProblem
from model.packages.import_names import ImportNames, ImportSource
from model.packages.project_pages import ListedVersion, ProjectPage, ProjectState, ProjectStatus
from model.redaction import holds_user, without_secrets

logger = logging.getLogger(__name__)

#: How files of this format begin.
_MARK = b"thoth-index-1\n"
#: Raised when summaries of pages change.
_PARSER = 2
_LEVEL = 1
#: Sources of metadata whose central directory was read as well.
_OF_WHEELS = frozenset({"wheel-range", "wheel"})
#: Bytes after decompression; nothing larger is ever stored.
_LARGEST = 80 << 20


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A page as it was transferred, and when the index last confirmed it."""

    page: ProjectPage
    text: PackedPage
    etag: str | None = None
    last_modified: str | None = None

    @property
    def conditions(self) -> dict[str, str]:
        """Headers of a conditional request, without values that are not allowed in requests."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {
            name: value
            for name, value in headers.items()
            if value and value.isascii() and value.isprintable()
        }


class IndexCache:
    """The cache folder of one index. Damaged files count as missing.

    :param root: folder of the caches of all indexes
    """

    def __init__(self, root: Path, index: Index) -> None:
        suffix = hashlib.sha256(index.url.encode()).hexdigest()[:12]
        name = re.sub(r"[^\w.-]", "_", index.name)
        self._root = root
        #: Why a file could not be written; ``None`` if all were.
        self.write_error: str | None = None
        self._folder = root / "indexes" / f"{name}-{suffix}"

    def page(self, project: str) -> KeptPage | None:
        """The last transferred page of a project."""
        stored = read_packed(self._page(project))
        if stored is None:
            return None
        about, body = stored
        try:
            text = PackedPage(body, about["content_type"], about["url"])
            as_of = datetime.fromisoformat(about["as_of"]).astimezone(UTC)
            if about.get("parser") == _PARSER and about["listed"] is not None:
                status = ProjectStatus(ProjectState(about["state"]), about["reason"])
                listed = listed_from(about["listed"])
                page = listed_page(project, text, as_of, listed, status, about["newest"])
            else:
                page = parse_page(project, text.unpacked(), as_of)
            return KeptPage(
                replace(page, from_cache=True), text, about["etag"], about["last_modified"]
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexProblem):
            return None

    def keep_page(self, project: str, kept: KeptPage, body: bytes | None = None) -> None:
        """Store a page; if its URLs contain users, only remove the stored page.

        :param body: the unpacked text, if it is new
        """
        if body is not None and _holds_user(body):
            with suppress(OSError):
                self._page(project).unlink(missing_ok=True)
            return
        page = kept.page
        about = {
            "content_type": kept.text.content_type,
            "url": without_secrets(kept.text.url),
            "as_of": page.as_of.isoformat(),
            "etag": kept.etag,
            "last_modified": kept.last_modified,
            "parser": _PARSER,
            "listed": listed_rows(page.source.listed()),
            "newest": page.source.newest if isinstance(page.source, JsonPage) else {},
            "state": page.status.state.value,
            "reason": page.status.reason,
        }
        self._write(self._page(project), about, kept.text.packed)

    def metadata(self, sha256: str | None) -> MetadataRead | None:
        """The metadata of a file.

        Wheel metadata that was stored without import names (before 0.2.0) is ignored.
        """
        stored = read_packed(self._metadata(sha256)) if sha256 else None
        if stored is None or ("imports" not in stored[0] and stored[0].get("source") in _OF_WHEELS):
            return None
        about, packed = stored
        try:
            return metadata_from(zstandard.decompress(packed, _LARGEST).decode(), about)
        except (zstandard.ZstdError, UnicodeDecodeError, KeyError, TypeError, ValueError):
            return None

    def keep_metadata(self, sha256: str | None, read: MetadataRead) -> None:
        """Store the metadata of a file that has a hash; secrets are left out."""
        if sha256:
            packed = zstandard.compress(without_secrets(read.text).encode(), _LEVEL)
            self._write(self._metadata(sha256), facts_about(read), packed)

    def _write(self, path: Path, about: Mapping[str, Any], packed: bytes) -> None:
        """Replace a file atomically; a full disk is noted in ``write_error`` and raises nothing."""
        try:
            write_packed(path, self._root, about, packed)
        except OSError as error:
            self.write_error = f"{self._root}: {error.strerror or error}"
            fields = {"path": str(path), "error": str(error)}
            logger.warning("index_cache_not_written", extra=fields)

    def _page(self, project: str) -> Path:
        return self._folder / "pages" / f"{project}.page"

    def _metadata(self, sha256: str) -> Path:
        return self._folder / "metadata" / sha256[:2] / f"{sha256}.metadata"


def write_packed(path: Path, root: Path, about: Mapping[str, Any], packed: bytes) -> None:
    """Replace a file of the cache atomically.

    :param root: folder of the cache; folders below it are made for this user only
    :param about: facts in JSON
    :param packed: compressed text
    :raises OSError: if the disk is full, or does not permit it
    """
    head = orjson.dumps({**about, "sha256": hashlib.sha256(packed).hexdigest()})
    head = zstandard.compress(head, _LEVEL)
    digest = hashlib.sha256(head).digest()
    _make_private(path.parent, root)
    data = b"".join((_MARK, digest, len(head).to_bytes(8), head, packed))
    write_atomically(path, data, PRIVATE)


def read_packed(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """Facts and packed text of a file; ``None`` if it is missing or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = len(_MARK) + 32
    head_end = start + 8 + int.from_bytes(data[start : start + 8])
    head, packed = data[start + 8 : head_end], data[head_end:]
    if data[: len(_MARK)] != _MARK or hashlib.sha256(head).digest() != data[len(_MARK) : start]:
        return None
    try:
        about = orjson.loads(zstandard.decompress(head, _LARGEST))
    except (zstandard.ZstdError, orjson.JSONDecodeError):
        return None
    whole = isinstance(about, dict) and about.get("sha256") == hashlib.sha256(packed).hexdigest()
    return (about, packed) if whole else None


def facts_about(read: MetadataRead) -> dict[str, Any]:
    """Facts about metadata, without its text, as JSON values."""
    imports = read.imports
    return {
        "source": read.source,
        "imports": None if imports is None else imports.names,
        "imports_source": None if imports is None else imports.source.value,
    }


def metadata_from(text: str, facts: Mapping[str, Any]) -> MetadataRead:
    """The metadata that :func:`facts_about` described.

    :raises ValueError: or ``KeyError`` or ``TypeError``, if the facts are something else
    """
    imports = None
    if facts.get("imports") is not None:
        source = ImportSource(facts["imports_source"])
        imports = ImportNames(tuple(facts["imports"]), source)
    return MetadataRead(text, str(facts.get("source")), imports)


def listed_rows(listed: Mapping[str, ListedVersion]) -> list[Any]:
    """Summaries as compact JSON: first the tag sets, then a row for each version."""
    tags: dict[str, int] = {}
    rows = [
        [
            version.version, version.file_count, version.requires_python, version.yanked,
            version.yanked_reason, version.uploaded_at.isoformat() if version.uploaded_at else None,
            [tags.setdefault(tag, len(tags)) for tag in version.wheels], version.has_sdist,
        ]
        for version in listed.values()
    ]  # fmt: skip
    return [list(tags), *rows]


def listed_from(rows: Sequence[Any]) -> dict[str, ListedVersion]:
    """The summaries of :func:`listed_rows`.

    :raises ValueError: or ``TypeError`` or ``LookupError``, if they are something else
    """
    tags = rows[0]
    return {
        version: ListedVersion(
            version, count, python, yanked, reason,
            datetime.fromisoformat(uploaded) if uploaded else None,
            tuple([tags[it] for it in wheels]), has_sdist,
        )
        for version, count, python, yanked, reason, uploaded, wheels, has_sdist in rows[1:]
    }  # fmt: skip


def _holds_user(body: bytes) -> bool:
    """Whether a URL in a page has a user, even if the page escapes characters of the URL."""
    if b"@" not in body and b"\\u0040" not in body and b"&" not in body:
        return False
    text = body.replace(b"\\/", b"/").replace(b"\\u0040", b"@").decode("latin-1")
    text = plain(text) if "&" in text else text
    return "@" in text and holds_user(text)


def _make_private(folder: Path, below: Path) -> None:
    """Make a folder and its parents inside ``below``, accessible to their owner only."""
    if str(folder) in _MADE_FOLDERS and folder.is_dir():
        return
    parents = [it for it in (folder, *folder.parents) if it != below and it.is_relative_to(below)]
    for parent in reversed(parents):
        private_folder(parent)
    _MADE_FOLDERS.add(str(folder))


#: Folders that this process has made.
_MADE_FOLDERS: set[str] = set()
