"""Answers of an index kept on disk: pages with what confirms them, metadata by file hash.

hishel was tried in this place. Its plain mode ignores what an answer says of its age, its
other mode obeys that and not the caller, and keeps nothing of an index that sends neither
validators nor ages; here it is the caller who says how old a page may be.

Addresses of files may hold tokens, without which nobody gets them, so pages are kept as they
came, for this user's eyes only. A page that holds a user or a password is not kept at all: it
is asked for each time, rather than kept without what its files are fetched with.
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
from common.index.project_pages import PageText
from common.redaction import holds_user, without_secrets

logger = logging.getLogger(__name__)

_LEVEL = 3
#: Unpacked; nothing larger was put in.
_LARGEST = 80 << 20


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A page as it was transferred once, and when the index last stood by it."""

    text: PageText
    as_of: datetime
    etag: str | None = None
    last_modified: str | None = None

    @property
    def conditions(self) -> dict[str, str]:
        """Headers that ask for the page only if it is another one by now.

        What an index may send and nobody may send back is left out.
        """
        given = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {
            name: value
            for name, value in given.items()
            if value and value.isascii() and value.isprintable()
        }


class IndexCache:
    """A folder of one index. What is broken in it counts as absent."""

    def __init__(self, home: Path, index: Index) -> None:
        place = hashlib.sha256(index.url.encode()).hexdigest()[:12]
        name = re.sub(r"[^\w.-]", "_", index.name)
        self._home = home
        self._folder = home / "cache" / "indexes" / f"{name}-{place}"

    def page(self, project: str) -> KeptPage | None:
        """The page of a project as it was last transferred."""
        kept = _read(self._page(project))
        if kept is None:
            return None
        about, body = kept
        if _holds_user(body):
            # An earlier version kept such pages.
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
        """Keep a page instead of the one before; one that names users replaces it by nothing."""
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
        """Text and source of what was read of a file."""
        kept = _read(self._metadata(sha256)) if sha256 else None
        return (kept[1].decode(), str(kept[0].get("source"))) if kept else None

    def keep_metadata(self, sha256: str | None, text: str, source: str) -> None:
        """Keep what was read of a file, without secrets; of one without a hash nothing is kept."""
        if sha256:
            public = without_secrets(text).encode()
            self._write(self._metadata(sha256), {"source": source}, public)

    def _write(self, path: Path, about: dict[str, Any], body: bytes) -> None:
        """Replace the file in one step; a disk that is full costs the cache and not the answer."""
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
    """Whether an address in a page names a user, also where the page escapes its signs."""
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
    """Make a folder, and all above it that are within ``below``, for their owner only."""
    within = [it for it in (folder, *folder.parents) if it != below and it.is_relative_to(below)]
    below.mkdir(parents=True, exist_ok=True)
    for it in reversed(within):
        it.mkdir(exist_ok=True, mode=0o700)
        if it.stat().st_mode & 0o077:
            it.chmod(0o700)
