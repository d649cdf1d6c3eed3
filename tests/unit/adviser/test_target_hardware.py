"""The hardware class of this host: exactly the recorded one, or a note that it is another."""

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
from tests.factories.golden import compare_views


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


QUOTA = hardware_class(told(), Allowance(cpu_quota=4.0))
TWIN = replace(LATER, label=OWN.label)
#: Recorded classes, beside which this host has its own.
RECORDED = {
    "nothing": [],
    "the host's own class": [PINNED, OWN],
    "one with fewer processors": [LATER, PINNED],
    "two that differ in one thing and in two": [PINNED, QUOTA],
    "the same, in another order": [QUOTA, PINNED],
    "its own, and one with the same label": [OWN, TWIN],
    "another stepping": [LATER],
    "more processors": [hardware_class(told(count=16), Allowance())],
    "a GPU": [hardware_class(told([{"name": "GPU"}]), Allowance())],
    "one that was only requested": [
        hardware_class({}, Allowance(), {"cpu_family": 6, "cpu_model": 85})
    ],
}


def test_hardware_class_of_this_host_is_named_with_a_note() -> None:
    views = {}
    for title, classes in RECORDED.items():
        host = of_host(OWN, [*map(recorded, classes)])
        assert host.digest == OWN.digest
        views[title] = f"{host.name}\n{host.note}"
    views["the twin, by its digest"] = requested_hardware(
        [recorded(OWN), recorded(TWIN)], LATER.digest
    ).name
    compare_views("hardware_of_hosts", views)


def test_similar_hardware_classes_are_ordered_by_processor_and_differences() -> None:
    other = hardware_class(told(family=7, model=1), Allowance())
    unknown = RecordedHardware("sha256:0", "unknown hardware", {"source": "unknown"})
    classes = [recorded(other), recorded(LATER), recorded(PINNED), recorded(OWN), unknown]
    near = near_classes(OWN.identity, classes)
    assert [it.hardware.digest for it in near] == [PINNED.digest, LATER.digest, other.digest]
    assert [it.same_processor for it in near] == [True, False, False]
    assert near[0].differs == ("cpu_quota", "threads_environment")


def test_equally_labelled_hardware_classes_show_differing_cpu_features_and_drivers() -> None:
    older = told([{"name": "GPU", "driver": "550"}])
    newer = told([{"name": "GPU", "driver": "570"}])
    newer["hwinfo"]["cpu_features"]["flags"].append("avx512f")
    classes = [recorded(hardware_class(it, Allowance())) for it in (older, newer)]
    assert sorted(class_names(classes).values()) == [
        "Chip, GPU, 8 CPUs (avx512f, driver of GPU 1 570)",
        "Chip, GPU, 8 CPUs (no avx512f, driver of GPU 1 550)",
    ]


@pytest.mark.parametrize("prefix", ["ff", ""])
def test_ambiguous_hardware_prefix_is_refused(prefix: str) -> None:
    known = [recorded(replace(OWN, digest=f"sha256:{n}a")) for n in range(2)]
    with pytest.raises(InvalidArgument, match="hardware classes begin with"):
        requested_hardware(known, prefix)


def test_thread_variables_are_part_of_the_hardware_class(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    free = own_hardware()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one = own_hardware()
    assert "threads_environment" not in free.identity
    assert one.identity["threads_environment"] == {"OMP_NUM_THREADS": "1"}
    assert free.digest != one.digest
