"""How many calls and repetitions there are, on a clock that the tests wind."""

from collections.abc import Iterator

import pytest

from pis.indicators.clock import READS, TICKS, Clock, clock_of
from pis.indicators.errors import Unsupported
from pis.indicators.timing import MOST_REPETITIONS, Plan, time_work

CLOCK = Clock("perf_counter", tick_ns=100, read_ns=50)


class Device:
    """Something whose calls take the time it is told, without taking any."""

    def __init__(self, seconds: Iterator[float]) -> None:
        self._seconds = seconds
        self.asked: list[int] = []

    def __call__(self, calls: int, /) -> tuple[float, int]:
        self.asked.append(calls)
        return calls * next(self._seconds), len(self.asked)


def always(seconds: float) -> Iterator[float]:
    while True:
        yield seconds


def plan(min_time_s: float = 0.0, repetitions: int = 0, calls: int = 0) -> Plan:
    return Plan(min_time_s, repetitions, calls, CLOCK)


@pytest.mark.parametrize("seconds", [1e-9, 3e-8, 2e-6, 1e-3])
def test_repetition_lasts_long_enough_for_the_clock(seconds: float) -> None:
    timing = time_work(Device(always(seconds)), plan())
    lasts_s = timing.calls * seconds
    assert lasts_s >= TICKS * CLOCK.tick_ns * 1e-9
    assert lasts_s >= READS * CLOCK.read_ns * 1e-9
    assert lasts_s < max(2 * seconds, 2 * CLOCK.shortest_s)
    assert timing.repetitions_s == pytest.approx([seconds] * len(timing.repetitions_s))


def test_at_least_nine_repetitions_run_unless_a_number_is_requested() -> None:
    assert len(time_work(Device(always(1.0)), plan(min_time_s=1.0)).repetitions_s) == 9
    timing = time_work(Device(always(1e-6)), plan(min_time_s=1.0))
    assert sum(timing.repetitions_s) * timing.calls >= 1.0
    assert 9 <= len(timing.repetitions_s) <= 60
    assert len(time_work(Device(always(1e-3)), plan(repetitions=4)).repetitions_s) == 4
    timing = time_work(Device(always(1e-6)), plan(min_time_s=10.0, calls=100))
    assert len(timing.repetitions_s) == MOST_REPETITIONS


def test_requested_number_of_calls_is_timed_or_refused_as_too_short() -> None:
    device = Device(always(1e-3))
    assert time_work(device, plan(calls=7)).calls == 7
    assert set(device.asked) == {7}
    with pytest.raises(Unsupported, match="--mini-batch"):
        time_work(Device(always(1e-7)), plan(calls=499))  # 1000 readings are 50 µs
    assert time_work(Device(always(1e-7)), plan(calls=501)).calls == 501


def test_slow_first_calls_do_not_change_the_timing_plan() -> None:
    def slow_at_first() -> Iterator[float]:
        yield from (1.0, 0.5, 0.1, 0.05)
        yield from always(1e-6)

    timing = time_work(Device(slow_at_first()), plan())
    assert timing.calls * 1e-6 >= CLOCK.shortest_s
    assert timing.repetitions_s == pytest.approx([1e-6] * len(timing.repetitions_s))


def test_warm_up_lasts_until_times_are_stable() -> None:
    falling = [1e-3 * 0.8**step for step in range(30)]

    def settling() -> Iterator[float]:
        yield from falling
        yield from always(falling[-1])

    timing = time_work(Device(settling()), plan(repetitions=9))
    assert timing.settled
    assert timing.warm_up_repetitions > 25
    assert max(timing.repetitions_s) == pytest.approx(falling[-1])


def test_warm_up_ends_although_times_never_become_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pis.indicators.timing._WARM_UP_S", 0.01)

    def restless() -> Iterator[float]:
        seconds = 1e-3
        while True:
            seconds *= 1.01
            yield seconds

    timing = time_work(Device(restless()), plan(repetitions=9))
    assert not timing.settled
    assert len(timing.repetitions_s) == 9


def test_timing_returns_the_output_of_the_last_call() -> None:
    device = Device(always(1e-3))
    assert time_work(device, plan()).output == len(device.asked)


def test_resolution_of_the_clock_is_measured() -> None:
    clock = clock_of("perf_counter")
    assert 1 <= clock.tick_ns < 10**8
    assert 1 <= clock.read_ns < 10**8
    assert clock_of("cuda_event").tick_ns >= 500


def test_garbage_collection_is_paused_during_the_measurement_only() -> None:
    import gc

    seen = []

    def look(calls: int, /) -> tuple[float, None]:
        seen.append(gc.isenabled())
        return calls * 1e-3, None

    time_work(look, plan())
    assert seen[0] is False
    assert gc.isenabled()
