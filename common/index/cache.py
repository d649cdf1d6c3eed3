"""Cache of an index on disk: pages with their validators, and metadata by file hash.

hishel was tried. One of its modes ignores the age in a response; the other obeys it instead of the
caller, and caches nothing from an index that sends neither validators nor an age. Here the caller
decides how old a page may be.

File URLs may contain tokens that are needed for downloads, so pages are stored unchanged, readable
for this user only. A page with a user or a password in a URL is never stored.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import zstandard

from common.index.configuration import Index
from common.index.html_links import plain
from common.index.page_parsing import PageText
from common.redaction import holds_user, without_secrets

logger = logging.getLogger(__name__)

_LEVEL = 3
#: Bytes after decompression; nothing larger is ever stored.
_LARGEST = 80 << 20


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A page as it was transferred, and when the index last confirmed it."""

    text: PageText
    as_of: datetime
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
    """The cache folder of one index. Damaged files count as missing."""

    def __init__(self, home: Path, index: Index) -> None:
        suffix = hashlib.sha256(index.url.encode()).hexdigest()[:12]
        name = re.sub(r"[^\w.-]", "_", index.name)
        self._home = home
        self._folder = home / "cache" / "indexes" / f"{name}-{suffix}"

    def page(self, project: str) -> KeptPage | None:
        """The last transferred page of a project."""
        kept = _read(self._page(project))
        if kept is None:
            return None
        about, body = kept
        if _holds_user(body):
            # Earlier versions stored such pages.
            with suppress(OSError):
                self._page(project).unlink(missing_ok=True)
            return None
        try:
            return KeptPage(
                PageText(body, str(about["content_type"]), str(about["url"])),
                datetime.fromisoformat(about["as_of"]).astimezone(UTC),
                about["etag"],
                about["last_modified"],
            )
        except (KeyError, TypeError, ValueError):
            return None

    def keep_page(self, project: str, page: KeptPage) -> None:
        """Store a page; a page with users in URLs only removes the stored one."""
        if _holds_user(page.text.body):
            with suppress(OSError):
                self._page(project).unlink(missing_ok=True)
            return
        about = {
            "content_type": page.text.content_type,
            "url": without_secrets(page.text.url),
            "as_of": page.as_of.isoformat(),
            "etag": page.etag,
            "last_modified": page.last_modified,
        }
        self._write(self._page(project), about, page.text.body)

    def metadata(self, sha256: str | None) -> tuple[str, str] | None:
        """Text and source of the metadata of a file."""
        kept = _read(self._metadata(sha256)) if sha256 else None
        return (kept[1].decode(), str(kept[0].get("source"))) if kept else None

    def keep_metadata(self, sha256: str | None, text: str, source: str) -> None:
        """Store the metadata of a file without secrets, if the file has a hash."""
        if sha256:
            public = without_secrets(text).encode()
            self._write(self._metadata(sha256), {"source": source}, public)

    def _write(self, path: Path, about: dict[str, Any], body: bytes) -> None:
        """Replace a file atomically; a full disk is logged and raises nothing."""
        head = orjson.dumps(about | {"sha256": hashlib.sha256(body).hexdigest()})
        packed = zstandard.ZstdCompressor(level=_LEVEL).compress(head + b"\n" + body)
        try:
            _make_private(path.parent, self._home)
            _replace(path, packed)
        except OSError as error:
            fields = {"path": str(path), "error": str(error)}
            logger.warning("index_cache_not_written", extra=fields)

    def _page(self, project: str) -> Path:
        return self._folder / "pages" / f"{project}.zst"

    def _metadata(self, sha256: str) -> Path:
        return self._folder / "metadata" / sha256[:2] / f"{sha256}.zst"


def _read(path: Path) -> tuple[dict[str, Any], bytes] | None:
    try:
        data = zstandard.ZstdDecompressor().decompress(path.read_bytes(), _LARGEST)
        head, _, body = data.partition(b"\n")
        about = orjson.loads(head)
    except (OSError, zstandard.ZstdError, orjson.JSONDecodeError):
        return None
    whole = isinstance(about, dict) and about.get("sha256") == hashlib.sha256(body).hexdigest()
    return (about, body) if whole else None


def _holds_user(body: bytes) -> bool:
    """Whether a URL in a page has a user, also if the page escapes its characters."""
    text = body.replace(b"\\/", b"/").replace(b"\\u0040", b"@").decode("latin-1")
    text = plain(text) if "&" in text else text
    return "@" in text and holds_user(text)


def _replace(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _make_private(folder: Path, below: Path) -> None:
    """Make a folder and its parents inside ``below``, accessible to their owner only."""
    parents = [it for it in (folder, *folder.parents) if it != below and it.is_relative_to(below)]
    below.mkdir(parents=True, exist_ok=True)
    for parent in reversed(parents):
        parent.mkdir(exist_ok=True, mode=0o700)
        if parent.stat().st_mode & 0o077:
            parent.chmod(0o700)
