"""What a person states beside result files that name neither versions nor hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.benchmarks.stated_facts import stated_facts
from model.errors import InvalidArgument, Reason
from tests.factories import benchmark_files as files


def test_a_lock_and_metadata_say_versions_and_hardware() -> None:
    locked = [("vllm", "0.11.2"), ("torch", "2.8.0"), ("torch", "2.9.0"), ("flask", "3.1.0")]
    assert stated_facts([("GPU", " NVIDIA L4 "), ("tp", "2")], locked) == {
        "vllm": "0.11.2", "accelerator": "NVIDIA L4", "tensor_parallel_size": "2",
    }  # fmt: skip


@pytest.mark.parametrize("pair", [("owner", "me"), ("gpu", " "), ("vllm", "0.12.0")])
def test_an_unknown_empty_or_contradicting_fact_is_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        stated_facts([pair], [("vllm", "0.11.2")])


def test_a_file_that_contradicts_what_is_stated_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(files.STATED, "vllm-bench", {"vllm": "0.12.0"})
    results, (refusal,) = files.read_files(
        tmp_path, "vllm-bench", files.sample("vllm-bench/metadata")
    )
    assert results == []
    assert (refusal.reason, refusal.field) == (Reason.CONFLICTING_FIELDS, "$.vllm")
