"""Answers of an index kept on disk: pages with what confirms them, metadata by file hash.

hishel was tried in this place. Its plain mode ignores what an answer says of its age, its
other mode obeys that and not the caller, and keeps nothing of an index that sends neither
validators nor ages; here it is the caller who says how old a page may be.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import zstandard

from common.indexes.configured import Index
from common.indexes.formats import PageText

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
        """Headers that ask for the page only if it is another one by now."""
        given = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in given.items() if value}


class IndexCache:
    """A folder of one index. What is broken in it counts as absent."""

    def __init__(self, home: Path, index: Index) -> None:
        place = hashlib.sha256(index.url.encode()).hexdigest()[:12]
        name = re.sub(r"[^\w.-]", "_", index.name)
        self._folder = home / "cache" / "indexes" / f"{name}-{place}"

    def page(self, project: str) -> KeptPage | None:
        """The page of a project as it was last transferred."""
        kept = _read(self._page(project))
        if kept is None:
            return None
        about, body = kept
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
        """Keep a page instead of the one before."""
        about = {
            "content_type": page.text.content_type,
            "url": page.text.url,
            "as_of": page.as_of.isoformat(),
            "etag": page.etag,
            "last_modified": page.last_modified,
        }
        _write(self._page(project), about, page.text.body)

    def metadata(self, sha256: str | None) -> tuple[str, str] | None:
        """Text and source of what was read of a file."""
        kept = _read(self._metadata(sha256)) if sha256 else None
        return (kept[1].decode(), str(kept[0].get("source"))) if kept else None

    def keep_metadata(self, sha256: str | None, text: str, source: str) -> None:
        """Keep what was read of a file; of one without a hash nothing is kept."""
        if sha256:
            _write(self._metadata(sha256), {"source": source}, text.encode())

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


def _write(path: Path, about: dict[str, Any], body: bytes) -> None:
    """Replace the file in one step; only the owner can read it, as pages may hold tokens.

    A disk that is full costs the cache and not the answer.
    """
    head = orjson.dumps(about | {"sha256": hashlib.sha256(body).hexdigest()})
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(head + b"\n" + body)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            try:
                file.write(packed)
                file.flush()
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        logger.warning("index_cache_not_written", extra={"path": str(path), "error": str(error)})
