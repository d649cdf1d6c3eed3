"""Notes about wheels for another Python, and about builds for GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adviser.advise import Advice
from adviser.reports.documents import ReleaseKnowledge
from model.packages.releases import ReleaseFile
from tests.factories.reports import report_of
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import Index

OLD: dict[str, Any] = {"sdist": True, "uploaded_at": "2020-01-01T00:00:00Z"}


def wheels(*pythons: int, platform: str = "manylinux1_x86_64") -> list[str]:
    return [f"cp3{it}-cp3{it}-{platform}" for it in pythons]


def notes(
    advice: Advice, index: Index, code: str, sizes: dict[str, int] | None = None
) -> list[str]:
    """Messages with a code, where an index lists a file for each wheel of the stack."""
    choices = advice.best.choices if advice.best else ()
    files = {
        it.purl: tuple(
            ReleaseFile(
                f"{it.name}-{it.version}-{tags}.whl", "ab" * 32, "wheel", (sizes or {}).get(it.name)
            )
            for tags in index[it.name][it.version].get("wheels", ["py3-none-any"])
        )
        for it in choices
    }
    report = report_of(advice, ReleaseKnowledge(files))["result"]["report"]
    return [it["message"] for it in report["stack_info"] if it["code"] == code]


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("one\ntwo\nthree\n", "3 packages have wheels for Python 3.9"),
        ("one\ntwo\nelsewhere\n", "2 packages have wheels for Python 3.9"),
        ("one\nmodern\n", "1 package has wheels for Python 3.10"),
        ("three\nhelper\n", "1 package has wheels for Python 3.9"),
        ("three\nhelper>1\n", None),
        ("unbuilt<2\n", "1 package has wheels for Python 3.8"),
        ("elsewhere\nmodern\n", None),
    ],
)
def test_the_nearest_python_for_which_most_packages_have_wheels_is_named(
    manifest: str, message: str | None
) -> None:
    index: Index = {
        "one": {"1": {**OLD, "wheels": wheels(8, 9, 10)}},
        "two": {"1": {**OLD, "wheels": wheels(8, 9)}},
        "three": {"1": {**OLD, "wheels": wheels(9)}},
        "elsewhere": {"1": {**OLD, "wheels": wheels(9, platform="win_amd64")}},
        "modern": {"1": {"requires_python": ">=3.10"}},
        "helper": {"2": {"requires_python": ">=3.10"}, "1": {}},
        "unbuilt": {"2": {"wheels": wheels(10)}, "1": {"wheels": wheels(7, 8)}},
    }
    advice = advice_for(request_for(manifest), index)
    found = notes(advice, index, "other_python")
    assert [it.partition(",")[0] for it in found] == ([message] if message else [])
    if message:
        assert f": add `--python {message.split()[-1]}` (" in found[0]


def test_the_size_of_what_a_build_for_cpus_does_not_need_is_that_of_its_files() -> None:
    linux = ["cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_28_aarch64"]
    index: Index = {
        "torch": {"1": {"requires": ["nvidia-blas", "triton", "numpy"], "wheels": linux}},
        "nvidia-blas": {"1": {"requires": ["nvidia-link", "numpy"]}},
        "nvidia-link": {"1": {}},
        "triton": {"1": {}},
        "numpy": {"1": {}},
    }
    sizes = {
        "nvidia-blas": 2_000_000_000,
        "nvidia-link": 600_000_000,
        "triton": 100_000_000,
        "torch": 1,
        "numpy": 9_000_000_000,
    }
    request = request_for("torch\n")
    (message,) = notes(advice_for(request, index), index, "cuda_build", sizes)
    assert "the download of 3 packages (2.7 GB)" in message
    (message,) = notes(
        advice_for(request_for("torch\ntriton\n"), index), index, "cuda_build", sizes
    )
    assert "the download of 2 packages (2.6 GB)" in message
    assert notes(advice_for(request, index), index, "cuda_build") == []
    gpu = replace(request, environment=replace(request.environment, cuda="12.4"))
    assert notes(advice_for(gpu, index), index, "cuda_build", sizes) == []
    assert notes(advice_for(request_for("numpy\n"), index), index, "cuda_build", sizes) == []
