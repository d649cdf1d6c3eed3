"""What a specification says, without passwords: it is kept, and shown to whoever may inspect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from adviser.projects.indexes import public_text, public_values
from adviser.projects.problems import InvalidProject
from api.privacy import public_file
from api.schemas.project_files import address_problem, toml_problem
from api.schemas.requirement_lists import list_problem
from pis.amun.problems import InvalidSpecification, Problem

#: What people and tools call variables that hold a secret; `TOKENIZERS_PARALLELISM` is none.
_SECRET = re.compile(
    r"(?:\A|_)(?:TOKEN|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE|"
    r"(?:API|ACCESS|PRIVATE|SECRET|AUTH|SIGNING|ENCRYPTION|ACCOUNT)_?KEY)(?:_|\Z)",
    re.IGNORECASE,
)
#: Texts of a lock, by the names that a project's files have.
_LOCKS = {"requirements_txt": "requirements.txt", "pylock_toml": "pylock.toml"}
#: What is measured is what was sent, to the letter.
_KEPT_AS_THEY_ARE = frozenset({"script", "files"})


def refuse_secrets(value: Mapping[str, Any]) -> None:
    """Refuse variables that hold secrets, and a lock that takes too long to read.

    A run without the secret would be another run, and with it the secret would be kept.

    :raises InvalidSpecification: naming the fields, and nothing of their values
    """
    if problems := [*_of_environment(value.get("environment")), *_of_lock(value.get("python"))]:
        raise InvalidSpecification(problems)


def public_specification(value: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as it is kept: indexes are read by what is configured for them here."""
    public = {k: v if k in _KEPT_AS_THEY_ARE else public_values(v) for k, v in value.items()}
    if isinstance(python := value.get("python"), Mapping):
        texts = {k: python[k] for k in _LOCKS if isinstance(python.get(k), str)}
        locks = {key: public_file(_LOCKS[key], text) for key, text in texts.items()}
        public["python"] = public["python"] | locks
    return public


def _of_environment(variables: Any) -> Iterator[Problem]:
    for number, it in enumerate(variables if isinstance(variables, list) else ()):
        name, content = (it.get("name"), it.get("value")) if isinstance(it, Mapping) else ("", "")
        at = f"environment[{number}]"
        if isinstance(name, str) and _SECRET.search(name) and content:
            words = f"{name[:80]} holds a secret, and specifications are kept and shown"
            yield Problem(at, f"{words}: leave it out")
        elif isinstance(content, str) and public_text(content) != content:
            words = "an address with credentials, and specifications are kept and shown"
            yield Problem(f"{at}.value", f"{words}: take them out")


def _of_lock(python: Any) -> Iterator[Problem]:
    given = python if isinstance(python, Mapping) else {}
    for key, problem in (("requirements_txt", list_problem), ("pylock_toml", toml_problem)):
        if not isinstance(text := given.get(key), str):
            continue
        wrong = problem([text]) or address_problem([text])
        if wrong is None and key == "requirements_txt":
            wrong = _hidden(text)
        if wrong is not None:
            yield Problem(f"python.{key}", wrong)


def _hidden(requirements: str) -> str | None:
    try:
        public_file(_LOCKS["requirements_txt"], requirements)
    except InvalidProject as error:
        return f"{error.message}: {error.hint}"
    return None
