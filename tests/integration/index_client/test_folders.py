"""The index client and folders, which it does not leave."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from common.settings import Settings
from model.errors import IndexFault, IndexProblem
from tests.services.index import Index
from tests.services.index_client import metadata_of, only_file, page, problem, settings_for


def test_a_folder_of_wheels_is_an_index(index: Index, tmp_path: Path) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n")
    index.add_wheel("crow", "1.0")
    folder = tmp_path / "wheels"
    folder.mkdir()
    for files in index.files.values():
        for name, data in files.items():
            (folder / name).write_bytes(data)
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", folder.as_uri()),))
    (file,) = page(settings).files
    assert (file.version, file.sha256) == (
        "1.0",
        hashlib.sha256(index.files["parrot"][file.filename]).hexdigest(),
    )
    assert "seed" in metadata_of(settings, file).text
    assert problem(settings, "gull").code is IndexFault.NOT_FOUND
    assert index.seen == []


def test_folder_of_pages_is_an_index_confined_to_its_root(index: Index, tmp_path: Path) -> None:
    index.add_wheel("parrot", "1.0")
    name, data = next(iter(index.files["parrot"].items()))
    project = tmp_path / "web" / "simple" / "parrot"
    packages = tmp_path / "web" / "simple" / "packages"
    project.mkdir(parents=True)
    packages.mkdir()
    (packages / name).write_bytes(data)
    (tmp_path / "web" / name).write_bytes(data)
    link = project / "index.html"
    link.write_text(f'<a href="../packages/{name}">{name}</a>')
    root = (tmp_path / "web" / "simple").as_uri()
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", root),))
    assert metadata_of(settings, only_file(settings)).source == "wheel"
    (packages / "away").symlink_to(tmp_path / "web")
    for outside in (f"../../{name}", f"../packages/away/{name}"):
        link.write_text(f'<a href="{outside}">{name}</a>')
        assert _refusal(settings) is IndexFault.ADDRESS_REFUSED
    link.rename(tmp_path / "web" / "page.html")
    link.symlink_to(tmp_path / "web" / "page.html")
    assert problem(settings).code is IndexFault.ADDRESS_REFUSED


def test_link_out_of_a_folder_of_wheels_is_refused(index: Index, tmp_path: Path) -> None:
    index.add_wheel("parrot", "1.0")
    name, data = next(iter(index.files["parrot"].items()))
    (tmp_path / name).write_bytes(data)
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / name)
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", folder.as_uri()),))
    assert only_file(settings).sha256 is None
    assert _refusal(settings) is IndexFault.ADDRESS_REFUSED


def _refusal(settings: Settings) -> IndexFault:
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    return refused.value.code
