"""What the runner reads of the machine: groups, counters, processor, host."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pis.amun import hardware, nvidia
from pis.amun.conditions import (
    NO_COUNTER,
    SWAPPED_PAGES,
    Conditions,
    conditions_between,
    energy_between,
    read_conditions,
    read_counters,
)
from pis.amun.hardware import (
    CgroupLimits,
    boot,
    cpu_info,
    first_processor,
    host,
    hwinfo,
    read_limits,
    separate_cores,
    throttled_periods,
)
from pis.amun.launchers.local import unmet_requests
from pis.amun.specification import HardwareRequest, ResourceRequests

CALM = Conditions((0.5, 0.4, 0.3), 10, 1000, 0, 0, 0, 0, (), {})


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_tightest_cgroup_v2_limit_of_all_levels_counts(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "cgroup",
        {
            "a/cpu.max": "150000 100000\n",
            "a/memory.max": "max\n",
            "a/cpu.stat": "usage_usec 1\nnr_throttled 3\n",
            "a/b/cpu.max": "max 100000\n",
            "a/b/memory.max": "1048576\n",
            "a/b/cpu.stat": "nr_throttled 4\n",
        },
    )
    own = tree(tmp_path, {"own": "0::/a/b\n"}) / "own"
    assert read_limits(root, own) == CgroupLimits(1.5, 1048576)
    assert throttled_periods(root, own) == 7


def test_cgroup_v1_limits_are_read_from_their_controllers(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "cgroup",
        {
            "cpu,cpuacct/job/cpu.cfs_quota_us": "50000\n",
            "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "cpu,cpuacct/job/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 5\n",
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
            "memory/job/memory.limit_in_bytes": "2048\n",
        },
    )
    own = tree(tmp_path, {"own": "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n"}) / "own"
    assert read_limits(root, own) == CgroupLimits(0.5, 2048)
    assert throttled_periods(root, own) == 2


def test_cgroup_limits_are_read_from_the_root_inside_a_container(tmp_path: Path) -> None:
    root = tree(tmp_path / "cgroup", {"cpu.max": "200000 100000\n"})
    own = tree(tmp_path, {"own": "0::/../elsewhere/pod\n"}) / "own"
    assert read_limits(root, own).cpu_quota == 2.0
    root = tree(tmp_path / "cgroup", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu.max": "max 100000\n"})
    own = tree(tmp_path, {"own": "1:cpu:/\n0::/\n"}) / "own"
    assert read_limits(root, own) == CgroupLimits(None, None)
    assert read_limits(tmp_path / "none", tmp_path / "none") == CgroupLimits(None, None)


def test_steal_share_is_measured_between_two_readings() -> None:
    after = replace(CALM, steal_ticks=15, cpu_ticks=1200)
    assert conditions_between(CALM, after)["steal_share"] == 0.025
    assert conditions_between(CALM, CALM)["steal_share"] is None
    between = conditions_between(read_conditions(), read_conditions())
    assert between == json.loads(json.dumps(between))


@pytest.mark.parametrize(
    ("change", "throttled", "swapped"),
    [
        ({}, False, False),
        ({"swapped_pages": SWAPPED_PAGES - 1}, False, False),
        ({"swapped_pages": SWAPPED_PAGES}, False, True),
        ({"thermal_events": 1}, True, False),
        ({"throttled_periods": 1}, True, False),
        ({"gpu_thermal_ns": 1}, True, False),
        ({"gpu_throttled": ("0: 0x40",)}, True, False),
    ],
)
def test_throttling_and_swapping_are_detected_by_growing_counters(
    change: dict[str, int], throttled: bool, swapped: bool
) -> None:
    between = conditions_between(CALM, replace(CALM, cpu_ticks=2000, **change))  # type: ignore[arg-type]
    assert (between["throttled"], between["swapped"]) == (throttled, swapped)


def test_machine_conditions_are_read_from_proc(tmp_path: Path) -> None:
    proc = tree(
        tmp_path,
        {
            "stat": "cpu  100 5 20 800 5 0 3 67 50 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n",
            "vmstat": "nr_free_pages 1\npswpin 7\npswpout 5\n",
        },
    )
    read = read_conditions(proc)
    assert (read.steal_ticks, read.cpu_ticks, read.swapped_pages) == (67, 1000, 12)


def test_description_of_this_machine_is_plausible() -> None:
    info = hwinfo()
    assert info["cpu_info"]["count"] >= 1
    assert info["cpu_features"]["flags"] == sorted(info["cpu_features"]["flags"])
    assert info["platform"]["system"] == "Linux"
    assert isinstance(info["gpu"], list)


def test_cpu_description_combines_cpuinfo_and_lscpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "which", lambda name: None)
    assert hardware.lscpu() == {}
    text = "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 85\nstepping: 4\ncpu cores: 8\n"
    info = cpu_info(first_processor(text), {})
    assert (info["family"], info["model"], info["stepping"], info["cores"]) == (6, 85, 4, 8)
    listed = {"Vendor ID": "ARM", "Model name": "Neoverse-N1", "Model": "1", "Stepping": "r3p1"}
    info = cpu_info({"BogoMIPS": "50"}, listed)
    assert (info["vendor_id_raw"], info["brand_raw"], info["model"]) == ("ARM", "Neoverse-N1", 1)
    assert info["stepping"] is None


def test_host_and_boot_identifiers_are_stable_and_reveal_no_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert host() == host()
    assert host().startswith("sha256:")
    monkeypatch.setattr(hardware, "text_of", lambda path: "another-machine\n")
    assert "another" not in host()
    assert boot("8c1f") == boot("8c1f") != boot("8c20")
    assert "8c1f" not in str(boot("8c1f"))


def test_jobs_are_pinned_to_separate_cores_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    siblings = {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}
    for cpu, text in siblings.items():
        tree(tmp_path, {f"cpu{cpu}/topology/thread_siblings_list": f"{text}\n"})
    monkeypatch.setattr(hardware, "_CPUS", tmp_path)
    assert separate_cores(2, {0, 1, 2, 3}) == [0, 1]
    assert separate_cores(2, {0, 2, 3}) == [0, 3]
    assert separate_cores(3, {0, 1, 2, 3}) == [0, 1, 2]
    assert separate_cores(9, {1, 3}) == [1, 3]


def test_every_unmet_hardware_request_is_named() -> None:
    info = {
        "cpu_info": {"family": 6, "model": 85, "brand_raw": "A (R) B", "sockets": 1, "cores": 2}
    }
    fits = ResourceRequests(1, 1024, HardwareRequest(6, 85, "b", 2))
    assert list(unmet_requests(fits, info)) == []
    other = ResourceRequests(1e6, 2**60, HardwareRequest(25, 1, "Abacus", 3))
    assert len(list(unmet_requests(other, info))) == 6


class GpuWithCounter:
    """NVML of two GPUs, of which one is too old to count energy."""

    class NVMLError(Exception): ...

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        return number

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:  # noqa: N802
        if handle:
            raise self.NVMLError
        return 2_500


def rapl(root: Path, **counts: int) -> Path:
    """The zones of a machine with one package, which contains its cores."""
    files = {}
    for number, (name, count) in enumerate(counts.items()):
        zone = f"intel-rapl:{number}"
        files |= {
            f"{zone}/name": f"{name.replace('_', '-')}\n",
            f"{zone}/energy_uj": f"{count}\n",
            f"{zone}/max_energy_range_uj": "262143328850\n",
        }
    return tree(root, files)


def test_energy_sums_independent_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "_nvml", GpuWithCounter)
    before = read_counters(rapl(tmp_path, package_0=262_143_000_000, core=1, dram=5, psys=7))
    after = read_counters(rapl(tmp_path, package_0=2_000_000, core=9, dram=5, psys=9))
    assert sorted(before) == ["dram", "gpu-0", "package-0"]
    # The package's counter started again at zero; the others stood still.
    energy = energy_between(before, after)
    assert (energy["joules"], energy["counters"]) == (pytest.approx(2.32885), ["package-0"])


def test_energy_without_a_counter_is_unknown_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "_nvml", lambda: None)
    none = energy_between(read_counters(tmp_path), read_counters(tmp_path))
    assert (none["joules"], none["reason"]) == (None, NO_COUNTER)
    before = read_counters(rapl(tmp_path, package_0=10))
    later = {name: replace(it, joules=9.0, at_s=it.at_s + 300) for name, it in before.items()}
    assert energy_between(before, later)["joules"] is None  # it may have wrapped twice
