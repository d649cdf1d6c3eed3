"""What is taken out of requests before anything of them is kept."""

from __future__ import annotations

import json
import tomllib

import pytest

from adviser.projects.parsing import parse_project
from adviser.projects.pipfile import pipfile_hash
from api.privacy import HASHES, public_file, public_request

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
        ("broken.toml", f"url = https://x:{SECRET}@h.example/ [\n"),
    ],
)
def test_no_file_keeps_a_secret(name: str, text: str) -> None:
    public = public_file(name, text)
    assert SECRET not in public.replace("\\\n", "")
    assert SECRET[4:] not in public
    assert "h.example" in public
    if name in ("Pipfile", "pylock.toml"):
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
def test_what_has_no_secret_stays_as_it_is_written(name: str, text: str) -> None:
    assert public_file(name, text) == text


def test_a_lock_still_fits_the_pipfile_it_was_made_of() -> None:
    manifest = tomllib.loads(PIPFILE)
    lock = {
        "_meta": {
            "hash": {"sha256": pipfile_hash(manifest)},
            "sources": manifest["source"],
        },
        "default": {"web": {"version": "==1.0", "index": "own"}},
        "develop": {},
    }
    files = {"Pipfile": PIPFILE, "Pipfile.lock": json.dumps(lock)}
    asked = public_request({"files": files, "labels": {f"a://x:{SECRET}@h": f"b://{SECRET}@h"}})
    assert SECRET not in json.dumps(asked)
    given = {name: text.encode() for name, text in asked["files"].items()}
    stale = {it.code for it in parse_project(given, "Pipfile").warnings}
    fits = {it.code for it in parse_project(given, "Pipfile", asked[HASHES]).warnings}
    assert stale - fits
    stack = {"requirements": PIPFILE, "requirements_lock": json.dumps(lock)}
    original = public_request({"application_stack": stack, HASHES: ["made up"]})
    assert original[HASHES] == asked[HASHES]
    assert SECRET not in json.dumps(original)
