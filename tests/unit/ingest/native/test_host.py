"""This machine's libraries, with the system's own cache of them as the oracle."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess

import pytest

from ingest.native.environments import analyze_host
from model.errors import InvalidArgument
from model.packages.environments import host_environment
from model.packages.native_libraries import highest_versions

LDCONFIG = shutil.which("ldconfig", path="/sbin:/usr/sbin:/usr/bin")


@pytest.mark.skipif(LDCONFIG is None, reason="there is no ldconfig")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="its cache is read for x86-64")
def test_every_library_of_the_systems_cache_is_found() -> None:
    text = subprocess.run(
        [str(LDCONFIG), "-p"], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    cached = set(re.findall(r"(?m)^\s+(\S+) \(libc6,x86-64", text))
    if not cached:
        pytest.skip("the cache is empty")
    found = analyze_host()
    assert cached - {it.library for it in found.provides} == set()


def test_the_glibc_of_the_loader_is_that_of_the_interpreter() -> None:
    libc = host_environment().libc
    if libc is None or libc[0] != "glibc":
        pytest.skip("this interpreter does not run on glibc")
    found = highest_versions(analyze_host().provides)["GLIBC"]
    assert tuple(map(int, found.split("."))) >= (2, 2)
    assert tuple(map(int, found.split("."))) <= libc[1]


def test_an_environment_is_named_by_its_system_and_never_by_the_host() -> None:
    found = analyze_host()
    assert platform.node() not in found.name.split("-")
    assert platform.node().encode() not in found.body.split(b'"')
    assert found.name.endswith(platform.machine())
    assert analyze_host("mine").digest != found.digest == analyze_host().digest


@pytest.mark.parametrize("name", ["\x1b[31m", "x" * 300, "a\nb"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="--name"):
        analyze_host(name)
