"""Removes e-mail addresses and names of persons from documents before they are stored."""

import re
from collections import Counter
from typing import Any

from model.redaction import without_secrets

REMOVED = "[e-mail removed]"

#: The lengths are bounded, so that a megabyte without an address is searched quickly.
_EMAIL = re.compile(
    r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,24}"
    r"(?![A-Za-z0-9-])"
)
_BEFORE_AT = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-")
_AFTER_AT = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")

#: Lower-case keys whose values name a person.
_PERSON = re.compile(
    r"(package|submission|poc|point_?of)*_?"
    r"(authors?|maintainers?|contacts?|submitters?|committers?)"
    r"(_?(name|e?_?mail|id))?"
    r"|user_?names?|(\w+_)?poc_(name|e?_?mail)|(\w+_?)?e_?mails?"
    r"|(\w+_)?e?mail_address"
)
#: Cache of keys that name nobody; documents repeat the same keys.
_impersonal_names: set[str] = set()
_NAMES_LIMIT = 50_000

_NESTED = frozenset({dict, list})

#: Keys below these are names of packages; a package may be called ``contact``.
_PACKAGE_TABLES = frozenset({"default", "develop", "packages", "dev-packages"})


def scrub(value: Any, canonical: bytes) -> Any:
    """Return ``value`` without e-mail addresses and without fields that name a person.

    Addresses in text become ``[e-mail removed]``; ``git@host`` of a repository is kept. If there is
    nothing to remove, the function returns ``value`` itself, after one search in ``canonical`` and
    one pass over the keys.

    :param canonical: the canonical JSON of ``value``
    """
    addresses = _may_hold_address(canonical)
    if not addresses and not _may_name_person(value):
        return value
    return _scrubbed(value, names_packages=False)


def scrub_text(text: str) -> str:
    """Return ``text`` without e-mail addresses.

    >>> scrub_text("built by Jo <jo@mail.example> from git@host.example:org/repo")
    'built by Jo <[e-mail removed]> from git@host.example:org/repo'
    """
    if "@" not in text:
        return text
    without = _EMAIL.sub(lambda it: it[0] if it[0].startswith("git@") else REMOVED, text)
    return text if without == text else without


def scrub_words(text: str, most: int) -> str:
    """Return a message without e-mail addresses and secrets, cut to ``most`` characters.

    Cutting the text may create a new match, such as a shorter URL with a password. Removal and
    cutting therefore run twice.

    >>> scrub_words("see https://jo:word@host.example/?token=1, or jo@mail.example", 42)
    'see https://host.example/ or [e-mail remov'
    """
    for _ in range(2):
        text = scrub_text(without_secrets(text))[:most].strip()
    return text


def _may_hold_address(data: bytes) -> bool:
    """Whether an ``@`` stands between characters of an address, unlike in ``"@result"``."""
    at = data.find(b"@")
    while at >= 0:
        # The user ``git`` before it belongs to the URL of a repository.
        by_git = data[max(at - 3, 0) : at] == b"git" and data[at - 4] not in _BEFORE_AT
        inside = 0 < at < len(data) - 1 and not by_git
        if inside and data[at - 1] in _BEFORE_AT and data[at + 1] in _AFTER_AT:
            return True
        at = data.find(b"@", at + 1)
    return False


def _may_name_person(value: Any) -> bool:
    """Whether a key at any depth names a person."""
    if len(_impersonal_names) > _NAMES_LIMIT:
        _impersonal_names.clear()
    names: set[str] = set()
    level = [value] if type(value) in _NESTED else []
    # Names are compared once for the whole document, which takes a third of the time of comparing
    # those of each object.
    while level:
        inner: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                names.update(part)
                inner += part.values()
            else:
                inner += part
        level = [part for part in inner if type(part) in _NESTED]
    unknown = names - _impersonal_names
    if any(map(_names_person, unknown)):
        return True
    _impersonal_names.update(unknown)
    return False


def _names_person(key: str) -> bool:
    return len(key) < 80 and bool(_PERSON.fullmatch(key.lower().replace("-", "_")))


def _scrubbed(value: Any, names_packages: bool) -> Any:
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, list):
        items = [_scrubbed(item, False) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items
    if isinstance(value, dict):
        return _scrubbed_object(value, names_packages)
    return value


def _scrubbed_object(value: dict[str, Any], names_packages: bool) -> dict[str, Any]:
    names = [key for key in value if names_packages or not _names_person(key)]
    kept = {
        name: _scrubbed(value[key], key in _PACKAGE_TABLES)
        for key, name in zip(names, _scrubbed_keys(names), strict=True)
    }
    same = len(kept) == len(value) and all(
        value.get(key, kept) is inner for key, inner in kept.items()
    )
    return value if same else kept


def _scrubbed_keys(keys: list[str]) -> list[str]:
    """Return ``keys`` without addresses; keys that would become equal are numbered.

    The order of the original keys determines the numbers, so that equal content has equal bytes.
    """
    scrubbed = [scrub_text(key) for key in keys]
    taken = set(scrubbed)
    if len(taken) == len(keys):
        return scrubbed
    taken = {key for key, new in zip(keys, scrubbed, strict=True) if key == new}
    numbers: Counter[str] = Counter()
    for index in sorted(range(len(keys)), key=keys.__getitem__):
        new = scrubbed[index]
        while new != keys[index] and scrubbed[index] in taken:
            numbers[new] += 1
            scrubbed[index] = f"{new} {numbers[new] + 1}"
        taken.add(scrubbed[index])
    return scrubbed
