"""Pipfiles: entries in every form, and the hash by which pipenv knows them."""

import tomllib
from typing import Any

from adviser.locks.formats import LockOptions, pipfile_lock_document
from adviser.projects.parsing import parse_project
from adviser.projects.pipfile import pipfile_hash, pipfile_of, read_pipfile
from adviser.projects.project import Project
from adviser.projects.requirement_parsing import ParseContext
from adviser.reports.serialization import dataclass_to_json
from common.formats.file_decoding import table_of
from tests.factories.projects import BY_OLDER, BY_PIPENV, WHOLE
from tests.factories.universes import ENVIRONMENT


def read(text: str) -> Project:
    return parse_project({"Pipfile": text.encode()})


def test_pipfile_hash_equals_the_hash_of_pipenv() -> None:
    manifest = tomllib.loads(WHOLE)
    assert pipfile_hash(manifest) == BY_PIPENV
    assert pipfile_hash(manifest, as_written=True) == BY_OLDER


#: Of ``[packages] flask = "*"`` alone, by pipenv 2026.10.3, whatever mirror it is told of.
WITHOUT_SOURCE = "f226f2c246fa4694a5658fd6793e384e9b5ea4b2502a4da2f7d0a795e3efb63f"


def test_pipfile_hash_without_sources_ignores_the_configured_index() -> None:
    project = read('[packages]\nflask = "*"\n')
    assert project.manifest_hashes[0] == WITHOUT_SOURCE
    options = LockOptions(ENVIRONMENT, {"pypi": "https://mirror.example/simple"})
    document = pipfile_lock_document([], project, options)
    assert document["_meta"]["hash"] == {"sha256": WITHOUT_SOURCE}


def test_secrets_of_a_pipfile_change_its_hash_but_are_not_stored() -> None:
    text = (
        "[[source]]\nname='a'\nurl='https://me:@@h.example/simple?token=@@'\nverify_ssl=true\n"
        "[packages]\nb={git='https://me:@@h.example/b.git'}\nc='*'\n"
        "[scripts]\nd='fetch https://me:@@h.example/d'\n"
    )
    project = read(text.replace("@@", "hidden@"))
    assert "hidden" not in repr(project)
    assert "hidden" not in dataclass_to_json(project).decode()
    assert "hidden" not in str(pipfile_of(project, {}))
    assert project.manifest_hashes[0] == pipfile_hash(tomllib.loads(text.replace("@@", "hidden@")))
    other = read(text.replace("@@", "other@"))
    assert other.manifest_hashes != project.manifest_hashes
    assert other.manifest == project.manifest


def test_scripts_and_pipenv_settings_do_not_change_the_pipfile_hash() -> None:
    manifest = tomllib.loads(WHOLE)
    del manifest["scripts"], manifest["pipenv"]
    assert pipfile_hash(manifest) == BY_PIPENV
    assert pipfile_hash({**manifest, "packages": {}}) != BY_PIPENV


def test_editable_git_requirement_is_not_a_local_path() -> None:
    context = ParseContext()
    text = '[packages]\na = {git = "https://h.example/a", editable = true}\n'
    read_pipfile(table_of("Pipfile", text.encode()), "Pipfile", context)
    (left_out,) = context.elsewhere
    assert (left_out.what, left_out.local) == ("a @ https://h.example/a", False)


def test_any_manifest_can_be_written_as_a_pipfile() -> None:
    project = parse_project(
        {"requirements.in": b"flask[async]>=3\nflask<4\npad; os_name == 'nt'\nplain\n"}
    )
    made = pipfile_of(project, {"pypi": "https://index.example/simple"})
    assert made["source"] == [
        {"name": "pypi", "url": "https://index.example/simple", "verify_ssl": True}
    ]
    packages: dict[str, Any] = made["packages"]
    assert packages["flask"] == {"version": "<4,>=3", "extras": ["async"]}
    assert packages["pad"] == {"version": "*", "markers": 'os_name == "nt"'}
    assert packages["plain"] == "*"
    again = Project(
        **{name: getattr(project, name) for name in ("requirements", "dev")}, manifest=made
    )
    assert pipfile_of(again, {}) == made
