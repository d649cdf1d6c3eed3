"""The index client and metadata: read from as few bytes as the server allows."""

import asyncio
import hashlib
import io
import json
import shutil
import threading
import time
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from common.formats.core_metadata import parse_core_metadata
from common.index.client import IndexClient
from common.settings import Settings
from model.errors import IndexFault, IndexProblem
from model.packages.import_names import ImportNames, ImportSource
from tests.factories.archives import zip_of
from tests.services.index import JSON, Index, status
from tests.services.index_client import LIMITS, ask, metadata_of, only_file, page
from tests.services.waiting import wait_until


def test_metadata_file_is_read_first(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    index.offer_metadata("parrot-1.0-py3-none-any.whl", b"Name: parrot\n")
    read = metadata_of(settings, only_file(settings))
    assert (read.text, read.source) == ("Name: parrot\n", "metadata-file")
    assert index.paths[1:] == ["/files/parrot/parrot-1.0-py3-none-any.whl.metadata"]


def test_metadata_file_with_an_unexpected_hash_is_refused(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    index.offer_metadata("parrot-1.0-py3-none-any.whl", b"Name: parrot\n")
    index.beside["parrot-1.0-py3-none-any.whl"] = b"Name: crow\n"
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    assert refused.value.code is IndexFault.HASH_MISMATCH


def test_metadata_is_read_from_the_wheel_if_its_metadata_file_is_missing(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n")
    index.facts["parrot-1.0-py3-none-any.whl"]["core-metadata"] = True
    read = metadata_of(settings, only_file(settings))
    assert parse_core_metadata(read.text).requires_dist == ("seed",)
    assert read.source == "wheel-range"


def test_wheel_metadata_is_read_from_the_end_and_cached(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n", padding=400_000)
    file = only_file(settings)

    async def twice(client: IndexClient) -> tuple[Any, Any, int]:
        first = await client.metadata(file)
        return first, await client.metadata(file), client.traffic.bytes_received

    first, second, received = ask(settings, twice)
    assert first == second
    assert first.source == "wheel-range"
    assert first.imports == ImportNames(("parrot",), ImportSource.DIRECTORY)
    assert len(index.seen) == 2
    assert received < 40_000
    index.offer_metadata(file.filename, b"Name: parrot\n")
    shutil.rmtree(settings.index_cache)
    assert metadata_of(settings, only_file(settings)).imports is None


def test_wheel_metadata_far_from_the_end_is_read_with_a_second_request(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n")
    name = "parrot-1.0-py3-none-any.whl"
    packed = io.BytesIO(index.files["parrot"][name])
    with zipfile.ZipFile(packed, "a") as archive:
        for number in range(3000):
            archive.writestr(f"parrot/{number:05}.txt", b"")
    index.add_file("parrot", name, packed.getvalue())
    file = only_file(settings)
    read = metadata_of(settings, file)
    assert "seed" in read.text
    assert len(index.seen) == 4
    without_size = replace(file, size_bytes=None, sha256=None)
    assert metadata_of(settings, without_size).text == read.text


def wheel_of_many_files() -> bytes:
    members = dict.fromkeys((f"parrot/{number:05}.txt" for number in range(3000)), "")
    members["parrot-1.0.dist-info/METADATA"] = "Name: parrot\n"
    return zip_of(members, zipfile.ZIP_STORED)


def test_metadata_of_a_wheel_with_many_files_is_read_from_its_end(
    index: Index, settings: Settings
) -> None:
    index.add_file("parrot", "parrot-1.0-py3-none-any.whl", wheel_of_many_files())
    assert metadata_of(settings, only_file(settings)).text == "Name: parrot\n"
    assert len(index.seen) == 3


def test_wheel_is_downloaded_once_from_a_server_without_ranges(
    index: Index, settings: Settings
) -> None:
    index.ranges = False
    index.add_wheel("parrot", "1.0", padding=100_000)
    assert metadata_of(settings, only_file(settings)).source == "wheel"
    assert len(index.seen) == 2


def test_large_wheel_is_not_downloaded_from_a_server_without_ranges(
    index: Index, settings: Settings
) -> None:
    index.ranges = False
    index.add_wheel("parrot", "1.0", padding=2 << 20)
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    assert refused.value.code is IndexFault.NO_RANGE


def test_whole_wheel_is_read_from_a_server_without_suffix_ranges(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0", padding=100_000)
    file = replace(only_file(settings), size_bytes=None)
    index.answers["/files/parrot/parrot-1.0-py3-none-any.whl"] = [status(501)]
    assert metadata_of(settings, file).source == "wheel"


@pytest.mark.parametrize(
    ("fact", "code"),
    [
        ({"size": 17}, IndexFault.SIZE_MISMATCH),
        ({"size": 50_000}, IndexFault.SIZE_MISMATCH),
        ({"hashes": {"sha256": "0" * 64}}, IndexFault.HASH_MISMATCH),
    ],
)
@pytest.mark.parametrize("name", ["parrot-1.0-py3-none-any.whl", "parrot-1.0.tar.gz"])
def test_file_with_an_unexpected_hash_or_size_is_refused(
    index: Index, settings: Settings, fact: dict[str, Any], code: IndexFault, name: str
) -> None:
    index.add_wheel("parrot", "1.0")
    index.add_source("parrot", "1.0")
    index.facts[name].update(fact)
    (file,) = (it for it in page(settings).files if it.filename == name)
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, file)
    assert refused.value.code is code


@pytest.mark.parametrize(
    "content_range",
    ["", "bytes 0-9/100", "bytes 0-99/*", "bytes 9-0/100", "bytes 0-99/SIZE", "bytes 1-100/SIZE"],
)
@pytest.mark.parametrize("promised", [True, False])
def test_partial_response_with_an_unexpected_range_is_refused(
    index: Index, settings: Settings, content_range: str, promised: bool
) -> None:
    index.add_wheel("parrot", "1.0")
    file = only_file(settings)
    header = {"Content_Range": content_range.replace("SIZE", str(file.size_bytes))}
    answer = status(206, b"x" * 100, **(header if content_range else {}))
    index.answers["/files/parrot/parrot-1.0-py3-none-any.whl"] = answer
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, file if promised else replace(file, size_bytes=None))
    assert refused.value.code is IndexFault.MALFORMED


def test_remaining_bytes_are_requested_if_a_server_sends_less(
    index: Index, settings: Settings
) -> None:
    data, name = wheel_of_many_files(), "parrot-1.0-py3-none-any.whl"
    index.add_file("parrot", name, data)
    file = only_file(settings)

    def part(first: int, last: int) -> Any:
        header = f"bytes {first}-{last}/{len(data)}"
        return status(206, data[first : last + 1], Content_Range=header)

    place = data.index(b"PK\x03\x04", data.index(b"parrot/02999.txt"))
    answers = [part(len(data) - (16 << 10), len(data) - 1), part(place, place + 9)]
    index.answers[f"/files/parrot/{name}"] = answers
    assert metadata_of(settings, file).text == "Name: parrot\n"


@pytest.mark.parametrize(
    ("version", "dynamic", "source"),
    [
        ("2.1", "", "sdist-likely"),
        ("2.2", "", "sdist"),
        ("2.2", "Dynamic: Requires-Dist\n", "sdist-likely"),
    ],
)
def test_source_distribution_states_if_its_requirements_are_certain(
    index: Index, settings: Settings, version: str, dynamic: str, source: str
) -> None:
    head = f"Metadata-Version: {version}\nName: parrot\nVersion: 1.0\n"
    index.add_source("parrot", "1.0", information=f"{head}{dynamic}Requires-Dist: seed\n")
    file = only_file(settings)
    read = metadata_of(settings, file)
    assert read.source == source
    assert metadata_of(settings, file) == read
    assert len(index.seen) == 2


def test_download_with_an_unexpected_hash_is_refused_and_removed(
    index: Index, settings: Settings, tmp_path: Path
) -> None:
    digest = index.add_wheel("parrot", "1.0")
    target = tmp_path / "parrot.whl"
    file = only_file(settings)
    ask(settings, lambda client: client.download(file, target))
    assert f"sha256:{hashlib.sha256(target.read_bytes()).hexdigest()}" == digest
    index.add_wheel("parrot", "1.0", "FORGED = True")
    with pytest.raises(IndexProblem):
        ask(settings, lambda client: client.download(file, target))
    assert not target.exists()


def test_index_client_opens_at_most_four_connections(index: Index, settings: Settings) -> None:
    lock = threading.Lock()
    open_now, most = 0, 0

    def slowly(handler: BaseHTTPRequestHandler) -> None:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        wait_until(lambda: most >= 4, "four connections are open")
        time.sleep(0.05)  # a fifth one would come meanwhile
        with lock:
            open_now -= 1
        body = json.dumps({"meta": {"api-version": "1.0"}, "name": "x", "files": []}).encode()
        status(200, body, Content_Type=JSON)(handler)

    names = [f"parrot{number}" for number in range(12)]
    index.answers.update({f"/simple/{name}/": slowly for name in names})

    async def all_of(client: IndexClient) -> None:
        await asyncio.gather(*(client.project(name) for name in names))

    ask(settings, all_of, replace(LIMITS, connections=4))
    assert most == 4
