"""Remove tokens, unprintable characters and secrets in URLs from texts before repeating them."""

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from model.measurements.units import THREAD_VARIABLES

_ADDRESS = re.compile(r"://[^\s\"<>]*")
#: A URL may contain others; ``git`` as a user is not a secret.
_USER = re.compile(r"(?<=://)(?!git@[^/@]*(?:/|\Z))[^/]+@")
_AUTHORITY_END = re.compile(r"[/?#]|\Z")
_PORT = re.compile(r"(?:\[[^\]]*\]?|[^:\[\]]*)(?::\d*['),.;\]]*)?")
#: Public parts of a fragment: hashes, and the project's place in an archive or a repository.
_PUBLIC = re.compile(
    r"(?:sha\d+|md5|blake2[bs])=[0-9A-Fa-f]+|egg=[\w.,\[\]-]+|subdirectory=[\w./-]+"
)


def without_secrets(text: str) -> str:
    """Remove user and password, query and secret fragments from all URLs in ``text``.

    The user ``git`` of a repository stays, and so do hashes. The rest of the text is unchanged;
    the time is linear in its length.

    >>> without_secrets("a @ https://me:word@host.example/a.whl?sig=f00#sha256=ab ; extra == 'x'")
    "a @ https://host.example/a.whl#sha256=ab ; extra == 'x'"
    >>> without_secrets("git+ssh://git@host.example/a.git@v1 of jo@mail.example")
    'git+ssh://git@host.example/a.git@v1 of jo@mail.example'
    """
    return _ADDRESS.sub(_public, text) if "://" in text else text


def holds_user(text: str) -> bool:
    """Whether a URL in ``text`` has a user, with or without a password.

    >>> holds_user("https://me:word@host.example/"), holds_user("https://host.example/@me")
    (True, False)
    """
    return any(_without_user(url[0]) != url[0] for url in _ADDRESS.finditer(text))


def _public(url: re.Match[str]) -> str:
    rest, _, fragment = _without_user(url[0]).partition("#")
    kept = [match[0] for part in fragment.split("&") if (match := _PUBLIC.match(part))]
    return rest.partition("?")[0] + ("#" + "&".join(kept) if kept else "")


def _without_user(address: str) -> str:
    """Remove the user; passwords may contain an unencoded slash, question mark or hash sign."""
    address = _USER.sub("", address)
    end = _AUTHORITY_END.search(address, 3)
    authority = address[3 : end.start() if end else None]
    if "@" in authority or _PORT.fullmatch(authority):
        return address
    return f"://{address.rpartition('@')[2]}" if "@" in address else "://"


def absolute_source(source: str) -> str:
    """A local path made absolute, so that it stays valid elsewhere; URLs are unchanged."""
    if "://" in source:
        return source
    return str(Path(source).expanduser().absolute())


#: Secrets in messages of libraries and in tracebacks; the groups are kept.
_SECRETS = (
    re.compile(r"(thoth_[\w-]{6})[\w-]{14,}"),
    re.compile(r"(?i)(\bbearer\s+)[^\s\"',]{8,}"),
    re.compile(r"(?i)([?&;](?:access_|api_)?(?:token|key|password|secret)=)[^&\s\"'#]+"),
    re.compile(r"(://[^/\s:@\"']*:)[^/\s@\"']+(?=@)"),
)


def scrubbed(text: str) -> str:
    """``text`` with tokens and passwords replaced by ``***``.

    >>> scrubbed("cannot reach postgresql://me:hunter2@db.example/x?token=abc")
    'cannot reach postgresql://me:***@db.example/x?token=***'
    """
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


_SECRET_OPTION = r"(?:token|password|passwd|passphrase|secret|credentials?|key)"  # noqa: S105
_QUOTED = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+"
#: Secrets in command lines: of options, variables, and by how services begin their tokens.
_COMMAND_SECRETS = (
    re.compile(rf"(?i)(?<![\w-])(-[\w-]*(?<![a-z0-9]){_SECRET_OPTION}(?:=| +)){_QUOTED}"),
    re.compile(rf"(?i)(?<![\w-])(\w*(?<![a-z0-9]){_SECRET_OPTION}=){_QUOTED}"),
    re.compile(r"\b(ghp_|gho_|ghs_|github_pat_|glpat-|hf_|sk-|xox[abp]-|pypi-|AKIA)[\w-]{12,}"),
)


def without_command_secrets(text: str) -> str:
    """A command line without tokens and passwords.

    >>> without_command_secrets("API_KEY='a b' bench --max-tokens 9 --hub-token abc -n 3")
    'API_KEY=*** bench --max-tokens 9 --hub-token *** -n 3'
    """
    text = scrubbed(without_secrets(text))
    for secret in _COMMAND_SECRETS:
        text = secret.sub(r"\1***", text)
    return text


#: Variables that are no secrets, whatever their values.
_HARMLESS = frozenset((
    *THREAD_VARIABLES, "CUDA_VISIBLE_DEVICES", "GLIBC_TUNABLES", "KMP_AFFINITY", "LD_PRELOAD",
    "MALLOC_CONF", "OMP_PLACES", "PYTORCH_CUDA_ALLOC_CONF", "TOKENIZERS_PARALLELISM", "XLA_FLAGS",
))  # fmt: skip
_SECRET_PART = re.compile(
    r"(?i)key|token|secret|pass|pwd|pin\b|auth|cred|cookie|session|private|sig"
)
#: Numbers, and short words such as ``SkylakeX``.
_PLAIN = re.compile(r"[\w.,+-]{0,16}")


def shown_value(name: str, value: str) -> str:
    """The value of a variable; if it could be a secret, a digest of it.

    >>> shown_value("OPENBLAS_CORETYPE", "Haswell")
    'Haswell'
    >>> shown_value("API_KEY", "1234")
    'sha256:44d8be7c88ed'
    """
    harmless = _PLAIN.fullmatch(value) and not _SECRET_PART.search(name)
    if name in _HARMLESS or harmless:
        return value
    return f"sha256:{sha256(f'{name}={value}'.encode()).hexdigest()[:12]}"


def shown_variables(variables: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The variables with :func:`shown_value`, and the real value for each shown value."""
    shown = {name: shown_value(name, value) for name, value in variables.items()}
    return shown, {shown[name]: value for name, value in variables.items()}


#: Up to the last ``@``: passwords may contain an unencoded one, or a slash.
_CREDENTIALS = re.compile(r"(?<=://)[^\s'\"`]+@")


def without_credentials(text: str) -> str:
    """``text`` with users and passwords in URLs replaced by ``…``.

    >>> without_credentials("from https://me:secret@index.example/simple")
    'from https://…@index.example/simple'
    """
    return _CREDENTIALS.sub("…@", text)


#: Maximum characters of foreign text that a message repeats.
_LONGEST = 200


def cut(value: object) -> str:
    """The start of untrusted text, made printable, for messages that are logged and stored.

    >>> len(cut("x" * 3_000_000)), cut("a\\0b")
    (201, 'a�b')
    """
    text = str(value)
    shown = "".join(it if it.isprintable() else "\ufffd" for it in text[:_LONGEST])
    return f"{shown}…" if len(text) > _LONGEST else shown
