"""Units are said in one way each, and each has a bound."""

from __future__ import annotations

from model.measurements.units import DISPLAY_UNITS, MAX_RATES, UNITS, Unit


def test_every_unit_is_said_in_one_way_and_has_a_bound() -> None:
    assert DISPLAY_UNITS.keys() == MAX_RATES.keys() == set(Unit)
    assert {UNITS[multiple.name] for multiple in DISPLAY_UNITS.values()} == set(Unit)
    assert all(unit.value.endswith("/s") for unit in Unit)


def test_multiples_are_those_that_their_names_say() -> None:
    said = {unit: (multiple.name, multiple.factor) for unit, multiple in DISPLAY_UNITS.items()}
    assert said[Unit.FLOP_PER_SECOND] == ("GFLOPS", 1e9)
    assert said[Unit.OP_PER_SECOND] == ("GOPS", 1e9)
    assert said[Unit.BYTES_PER_SECOND] == ("GB/s", 1e9)
    assert said[Unit.IMAGES_PER_SECOND] == ("images/s", 1.0)
