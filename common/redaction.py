"""Remove from texts what must not be repeated: secrets in URLs, tokens, unprintable characters."""

from __future__ import annotations

import re
from pathlib import Path

_ADDRESS = re.compile(r"://[^\s\"<>]*")
#: An address may hold others; ``git`` as a user names nobody.
_USER = re.compile(r"(?<=://)(?!git@[^/@]*(?:/|\Z))[^/]+@")
_AUTHORITY_END = re.compile(r"[/?#]|\Z")
_PORT = re.compile(r"(?:\[[^\]]*\]?|[^:\[\]]*)(?::\d*['),.;\]]*)?")
#: What is public in a fragment: hashes, and where in an archive or a repository a project is.
_PUBLIC = re.compile(
    r"(?:sha\d+|md5|blake2[bs])=[0-9A-Fa-f]+|egg=[\w.,\[\]-]+|subdirectory=[\w./-]+"
)


def without_secrets(text: str) -> str:
    """``text`` with the addresses in it less user and password, query, and secret fragments.

    The user ``git`` of a repository stays, and so do hashes. What is no address stays as it
    is; the time grows with the length only.

    >>> without_secrets("a @ https://me:word@host.example/a.whl?sig=f00#sha256=ab ; extra == 'x'")
    "a @ https://host.example/a.whl#sha256=ab ; extra == 'x'"
    >>> without_secrets("git+ssh://git@host.example/a.git@v1 of jo@mail.example")
    'git+ssh://git@host.example/a.git@v1 of jo@mail.example'
    """
    return _ADDRESS.sub(_public, text) if "://" in text else text


def holds_user(text: str) -> bool:
    """Whether an address in ``text`` names a user, perhaps with a password.

    >>> holds_user("https://me:word@host.example/"), holds_user("https://host.example/@me")
    (True, False)
    """
    return any(_without_user(it[0]) != it[0] for it in _ADDRESS.finditer(text))


def _public(found: re.Match[str]) -> str:
    rest, _, fragment = _without_user(found[0]).partition("#")
    kept = [it[0] for part in fragment.split("&") if (it := _PUBLIC.match(part))]
    return rest.partition("?")[0] + ("#" + "&".join(kept) if kept else "")


def _without_user(address: str) -> str:
    """Passwords may have a slash, a question mark or a hash sign that nobody encoded."""
    address = _USER.sub("", address)
    end = _AUTHORITY_END.search(address, 3)
    authority = address[3 : end.start() if end else None]
    if "@" in authority or _PORT.fullmatch(authority):
        return address
    return f"://{address.rpartition('@')[2]}" if "@" in address else "://"


def absolute_source(source: str) -> str:
    """A local path made absolute, so that it means the same tomorrow; URLs as they are."""
    if "://" in source:
        return source
    return str(Path(source).expanduser().absolute())


#: What looks like a secret, wherever a library's message or a traceback quotes it; the groups stay.
_SECRETS = (
    re.compile(r"(thoth_[\w-]{6})[\w-]{14,}"),
    re.compile(r"(?i)(\bbearer\s+)[^\s\"',]{8,}"),
    re.compile(r"(?i)([?&;](?:access_|api_)?(?:token|key|password|secret)=)[^&\s\"'#]+"),
    re.compile(r"(://[^/\s:@\"']*:)[^/\s@\"']+(?=@)"),
)


def scrubbed(text: str) -> str:
    """``text`` without tokens and passwords of URLs.

    >>> scrubbed("cannot reach postgresql://me:hunter2@db.example/x?token=abc")
    'cannot reach postgresql://me:***@db.example/x?token=***'
    """
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


#: Up to the last ``@``: passwords may have one, or a slash, that nobody encoded.
_CREDENTIALS = re.compile(r"(?<=://)[^\s'\"`]+@")


def without_credentials(text: str) -> str:
    """``text`` with users and passwords of addresses taken out.

    >>> without_credentials("from https://me:secret@index.example/simple")
    'from https://…@index.example/simple'
    """
    return _CREDENTIALS.sub("…@", text)


#: Characters of an index's words that a message repeats.
_LONGEST = 200


def cut(words: object) -> str:
    """The words' beginning, printable: an index writes what it likes, and messages are stored.

    >>> len(cut("x" * 3_000_000)), cut("a\\0b")
    (201, 'a�b')
    """
    text = str(words)
    shown = "".join(it if it.isprintable() else "\ufffd" for it in text[:_LONGEST])
    return f"{shown}…" if len(text) > _LONGEST else shown
