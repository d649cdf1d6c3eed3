"""The hardware class of this host: exactly the recorded one, or a note that it is another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adviser.answering.target_hardware import (
    class_names,
    near_classes,
    of_host,
    own_hardware,
    requested_hardware,
)
from model.errors import InvalidArgument
from model.measurements.evidence import RecordedHardware
from model.measurements.hardware import Allowance, hardware_class
from model.measurements.inspection import Hardware
from model.measurements.units import THREAD_VARIABLES


def told(gpus: list[dict[str, Any]] | None = None, **cpu: Any) -> dict[str, Any]:
    """What a job sees of a machine with eight processors."""
    known = {"vendor_id_raw": "V", "brand_raw": "Chip", "family": 6, "model": 85, "stepping": 4}
    return {
        "hwinfo": {
            "cpu_info": {**known, "count": 8, "arch_string_raw": "x86_64", **cpu},
            "cpu_features": {"flags": ["avx2", "fma"]},
            "gpu": gpus or [],
        }
    }


def recorded(it: Hardware) -> RecordedHardware:
    return RecordedHardware(it.digest, it.label, dict(it.identity))


OWN = hardware_class(told(), Allowance())
PINNED = hardware_class(told(), Allowance(cpus=2, threads={"OMP_NUM_THREADS": "2"}))
LATER = hardware_class(told(stepping=5), Allowance())


def test_the_very_class_of_the_host_needs_no_note() -> None:
    found = of_host(OWN, [recorded(PINNED), recorded(OWN)])
    assert (found.digest, found.note) == (OWN.digest, None)


def test_another_class_is_reported_by_name_and_never_taken_for_the_hosts_own() -> None:
    found = of_host(OWN, [recorded(LATER), recorded(PINNED)])
    assert found.digest == OWN.digest
    assert found.note is not None
    short = PINNED.digest.removeprefix("sha256:")[:8]
    assert f"another class, {PINNED.label} ({short})" in found.note
    assert "differs in cpu_quota, threads_environment: --hardware" in found.note
    assert requested_hardware([recorded(LATER), recorded(PINNED)], short).digest == PINNED.digest


def test_near_classes_are_ordered_by_processor_and_differences() -> None:
    other = hardware_class(told(family=7, model=1), Allowance())
    unknown = RecordedHardware("sha256:0", "unknown hardware", {"source": "unknown"})
    classes = [recorded(other), recorded(LATER), recorded(PINNED), recorded(OWN), unknown]
    near = near_classes(OWN.identity, classes)
    assert [it.hardware.digest for it in near] == [PINNED.digest, LATER.digest, other.digest]
    assert [it.same_processor for it in near] == [True, False, False]
    assert near[0].differs == ("cpu_quota", "threads_environment")


def test_the_nearest_is_the_one_that_differs_in_least() -> None:
    quota = hardware_class(told(), Allowance(cpu_quota=4.0))
    for order in ([PINNED, quota], [quota, PINNED]):
        note = of_host(OWN, [recorded(it) for it in order]).note
        assert note is not None
        assert quota.label in note


@pytest.mark.parametrize(
    "other",
    [
        LATER,
        hardware_class(told(count=16), Allowance()),
        hardware_class(told([{"name": "GPU"}]), Allowance()),
        hardware_class({}, Allowance(), {"cpu_family": 6, "cpu_model": 85}),
    ],
    ids=["stepping", "processors", "GPU", "requested"],
)
def test_other_machines_are_not_near(other: Hardware) -> None:
    found = of_host(OWN, [recorded(other)])
    assert found.digest == OWN.digest
    assert found.note is not None
    assert found.note.endswith("nor on any like it")


def test_where_nothing_was_measured_at_all_nothing_is_said_of_hardware() -> None:
    assert of_host(OWN, []).note is None


def test_a_class_is_named_by_its_label_and_by_what_differs_only_beside_one_with_the_same() -> None:
    assert of_host(OWN, []).name == OWN.label
    assert of_host(OWN, [recorded(OWN), recorded(PINNED)]).name == OWN.label
    known = [recorded(OWN), recorded(replace(LATER, label=OWN.label))]
    assert of_host(OWN, known).name == f"{OWN.label} (stepping 4)"
    assert requested_hardware(known, LATER.digest).name == f"{OWN.label} (stepping 5)"
    assert requested_hardware([recorded(PINNED)], PINNED.digest).name == PINNED.label


def test_classes_with_one_label_differ_by_instruction_sets_and_drivers() -> None:
    older = told([{"name": "GPU", "driver": "550"}])
    newer = told([{"name": "GPU", "driver": "570"}])
    newer["hwinfo"]["cpu_features"]["flags"].append("avx512f")
    classes = [recorded(hardware_class(it, Allowance())) for it in (older, newer)]
    assert sorted(class_names(classes).values()) == [
        "Chip, GPU, 8 CPUs (avx512f, driver of GPU 1 570)",
        "Chip, GPU, 8 CPUs (no avx512f, driver of GPU 1 550)",
    ]


@pytest.mark.parametrize("prefix", ["ff", ""])
def test_a_prefix_names_one_class(prefix: str) -> None:
    known = [recorded(replace(OWN, digest=f"sha256:{n}a")) for n in range(2)]
    with pytest.raises(InvalidArgument, match="hardware classes begin with"):
        requested_hardware(known, prefix)


def test_thread_variables_of_this_process_are_part_of_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    free = own_hardware()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one = own_hardware()
    assert "threads_environment" not in free.identity
    assert one.identity["threads_environment"] == {"OMP_NUM_THREADS": "1"}
    assert free.digest != one.digest
