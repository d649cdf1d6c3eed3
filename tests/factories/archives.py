"""Archives of given members."""

import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping

Members = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]


def zip_of(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive with these members, in their order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for path, content in members.items() if isinstance(members, Mapping) else members:
            archive.writestr(path, content or b"")
    return packed.getvalue()


def tar_of(members: Members, mode: str = "w:gz") -> bytes:
    """A tar archive with these members, in their order; ``None`` is a link to ``/etc/passwd``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for path, content in members.items() if isinstance(members, Mapping) else members:
            data = content.encode() if isinstance(content, str) else content or b""
            member = tarfile.TarInfo(path)
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()
