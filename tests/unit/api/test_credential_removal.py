"""What is taken out of requests before anything of them is kept."""

import json
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress

import pytest

from adviser.projects.indexes import public_text
from adviser.projects.parsing import parse_project
from adviser.projects.pipfile import pipfile_hash
from adviser.projects.project import WarningCode
from api.amun import public_specification, refuse_secrets
from api.http.project_files import public_file, public_project
from model.errors import InvalidFile
from model.redaction import holds_user, without_secrets
from pis.amun.schema import InvalidSpecification

SECRET = "tops3cret"
PIPFILE = f"""\
# made at https://me:{SECRET}@h.example/
[[source]]
name = "own"
url = 'https://me:{SECRET}@h.example/simple?token={SECRET}'
verify_ssl = true

[packages]
web = "*"
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Pipfile", PIPFILE),
        ("Pipfile", f'[packages]\na = {{git = "https:\\u002f/x:{SECRET}@h.example/a.git"}}\n'),
        ("pyproject.toml", f"[tool.a]\nurl = {{u='https://h.example/s?t={SECRET}'}}\n"),
        ("Pipfile.lock", f'{{"a": "https:\\/\\/x:{SECRET}@h.example\\/simple"}}'),
        ("requirements.txt", f"--index-url 'https://h.example/s?t={SECRET}'\nweb\n"),
        ("requirements.in", f"-i https://x:{SECRET[:4]}\\\n{SECRET[4:]}@h.example/s\nweb\n"),
        ("constraints.txt", f"a @ git+https://{SECRET}@h.example/a.git#egg=a\n"),
        ("pylock.toml", f"a=[{{url='https://x:{SECRET}@h.example/s?t={SECRET}', b={{c=1}}}}]\n"),
        ("pylock.toml", f'a = "https://x:{SECRET}@h.example/s?t=1"\nb = "a == \\"b\\""\n'),
        ("pylock.toml", f'a = "https:\\u002f/x:{SECRET}@h.example/"\n'),
        ("pylock.toml", f'a = """https:\\\n  //x:{SECRET}@h.example/"""\n'),
        ("uv.lock", f"a=[{{url='https://x:{SECRET}@h.example/s?t={SECRET}', b={{c=1}}}}]\n"),
        ("uv.lock", f'a = "https:\\u002f/x:{SECRET}@h.example/"\n'),
        ("broken.toml", f"url = https://x:{SECRET}@h.example/ [\n"),
    ],
)
def test_stored_project_file_contains_no_secret(name: str, text: str) -> None:
    public = public_file(name, text)
    assert SECRET not in public.replace("\\\n", "")
    assert SECRET[4:] not in public
    assert "h.example" in public
    if name in ("Pipfile", "pylock.toml", "uv.lock"):
        tomllib.loads(public)
    if name == "Pipfile.lock":
        json.loads(public)
    assert public_file(name, public) == public


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Pipfile", '# words\n[packages]\nweb = {version="*", path="C:\\\\a"}\n'),
        ("Pipfile", '[[source]]\nurl = "https://${USER}:${WORD}@h.example/simple"\n'),
        ("requirements.txt", "web==1 \\\n  --hash=sha256:ab\n"),
        ("Pipfile.lock", '{"a":   "b\\n"}'),
    ],
)
def test_file_without_secrets_is_stored_unchanged(name: str, text: str) -> None:
    assert public_file(name, text) == text


def test_pipfile_lock_hash_matches_after_removal_of_credentials() -> None:
    manifest = tomllib.loads(PIPFILE)
    lock = {
        "_meta": {"hash": {"sha256": pipfile_hash(manifest)}, "sources": manifest["source"]},
        "default": {"web": {"version": "==1.0", "index": "own"}},
        "develop": {},
    }
    files = {"Pipfile": PIPFILE, "Pipfile.lock": json.dumps(lock)}
    project = public_project(files)
    assert SECRET not in repr(project)
    assert pipfile_hash(manifest) in project.manifest_hashes
    public = {name: public_file(name, text).encode() for name, text in files.items()}
    stale = {it.code for it in parse_project(public).warnings}
    assert WarningCode.LOCK_OUTDATED in stale
    told = {it.code for it in project.warnings}
    assert told == (stale - {WarningCode.LOCK_OUTDATED}) | {WarningCode.CREDENTIALS_REMOVED}


@pytest.mark.parametrize(
    "line",
    [
        "-i https:'//'me:{}@h.example/s",
        '-i https:"/"/me:{}@h.example/s',
        "-i https:/\\/me:{}@h.example/s",
        "-i https:/\\\\\n/me:{}@h.example/s",
        "-i https:/\\\x0b/me:{}@h.example/s",
        '-i "https://me:a\\"{}@h.example/s"',
        '-i "https://me:a {}@h.example/s"',
        "--extra-index-url='https://me:a {}@h.example/s'",
        "-i https:'//'h.example/s?token={}",
        "-i https:'//me:{}@h.example/s",
        "web --config-settings 'a=https:'//me:{}@h.example/",
    ],
)
@pytest.mark.parametrize("name", ["requirements.in", "constraints.txt", "p/other.txt"])
def test_credentials_hidden_by_quotes_are_refused(name: str, line: str) -> None:
    text = f"web\n{line.format(SECRET)}\n"
    with pytest.raises(InvalidFile, match="credentials") as refused:
        public_project({name: text})
    assert refused.value.field == "2"
    assert SECRET not in str(refused.value)
    with pytest.raises(InvalidSpecification, match="credentials") as told:
        refuse_secrets({"python": {"requirements_txt": text}})
    assert [it.field for it in told.value.problems] == ["python.requirements_txt"]


@pytest.mark.parametrize(
    "text",
    [
        "web ; os_name == 'nt' # it's https://h.example/ of jo@h.example\n",
        'web @ https://h.example/a.whl ; extra == "x"\n',
        "-i 'https://${USER}:${WORD}@h.example/s'\n",
        "--config-settings=\"a=b c\" --find-links 'C:\\a/b/c'\n",
        "-e 'git+ssh://git@h.example/a.git@v1#egg=a'\n",
    ],
)
def test_quoted_text_without_a_secret_is_unchanged(text: str) -> None:
    assert public_file("requirements.txt", text) == text


#: Each is repeated until it has so many characters as are wanted, behind what stands before.
HOSTILE = {
    "unclosed quote": ("'", "://"),
    "unclosed quotes": ("\\\n'\"", "'://"),
    "addresses": ("", "://"),
    "users": ("https://", "u:p@"),
    "users and slashes": ("https://", "u@/"),
    "one address": ("-i https://", "a"),
    "queries": ("-i https://h/", "?a=$B&"),
    "fragments": ("-i https://h/#", "egg=a&"),
    "variables": ("-i https://", "${A}:"),
    "brackets": ("-i https://", "["),
    "ports": ("-i https://h", ":1"),
    "backslashes": ("-i ", "\\"),
    "continued": ("-i ", "\\\n"),
    "quotes": ("-f ", "'"),
    "quoted": ("-f '", "a/"),
    "words": ("-f ", "'a/'/ "),
    "lines": ("", "-f https://u:p@a/\n"),
    "blanks": ("a =", " "),
    "dotted key": ("", "a.  " * 98 + "\n"),
    "hashes": ("a==1", " --hash=sha256:aa \\\n"),
    "comments": ("", "#\n"),
}
SHORT, LONG = 2**14, 2**17
CLEANING: dict[str, Callable[[str], object]] = {
    "public_text": public_text,
    "without_secrets": without_secrets,
    "holds_user": holds_user,
    "requirements.txt": lambda text: public_file("requirements.txt", text),
    "Pipfile": lambda text: public_file("Pipfile", text),
    "Pipfile.lock": lambda text: public_file("Pipfile.lock", json.dumps({"a": "\u00e4/" + text})),
    "pylock.toml": lambda text: public_file("pylock.toml", text),
    "specification": lambda text: public_specification(
        {"python": {"requirements_txt": text, "pylock_toml": text}}
    ),
}


@pytest.mark.parametrize("cleaned", CLEANING.values(), ids=CLEANING)
def test_removal_of_credentials_takes_linear_time(cleaned: Callable[[str], object]) -> None:
    """A quarter of a second of CPU is the most that any takes; by the square of the length it is 5.

    Short texts come first, so that a failure is not waited for.
    """
    for kind, (before, again) in HOSTILE.items():
        for length in (SHORT, LONG):
            text = before + again * (length // len(again))
            began = time.process_time()
            with suppress(InvalidFile):
                cleaned(text)
            assert time.process_time() - began < 2, (kind, length)
