"""Plots: where marks are, what they say, and text from outside."""

from xml.etree.ElementTree import Element, fromstring

import pytest

from adviser.plots import (
    DrawnDistribution,
    DrawnEffect,
    DrawnJob,
    DrawnRun,
    Scale,
    distributions_plot,
    effects_plot,
    fit_text,
    history_plot,
    samples_plot,
    scale_of,
)


def _of(svg: str, name: str, kind: str) -> list[Element]:
    return [it for it in fromstring(svg).iter(name) if it.get("class") == kind]


def test_effect_plot_draws_the_interval_around_the_effect() -> None:
    svg = effects_plot([DrawnEffect("numpy 2.3.5", 15.0, 10.0, 20.0, "faster", 2.0)], "effects")
    (line,), (dot,) = _of(svg, "line", "faster"), _of(svg, "circle", "faster")
    left, right, middle = (
        float(line.attrib["x1"]),
        float(line.attrib["x2"]),
        float(dot.attrib["cx"]),
    )
    assert left < middle < right
    assert middle - left == pytest.approx(right - middle, abs=0.02)
    (zero,) = _of(svg, "line", "zero")
    assert float(zero.attrib["x1"]) < left
    assert dot.findtext("title") == "numpy 2.3.5: +15.0 %, 95 % interval +10.0 to +20.0 %; faster"


def test_effect_plot_shows_an_undetermined_effect_as_a_hollow_dot() -> None:
    svg = effects_plot([DrawnEffect("a", 1.0, None, None, "undetermined")], "effects")
    (dot,) = _of(svg, "circle", "undetermined open")
    assert "interval unknown" in (dot.findtext("title") or "")
    assert _of(svg, "line", "undetermined") == []


def test_effect_plot_shows_the_margin_as_a_band_around_zero() -> None:
    svg = effects_plot([DrawnEffect("a", 5.0, -5.0, 15.0, "undetermined", 2.0)], "effects")
    (band,), (zero,) = _of(svg, "rect", "band"), _of(svg, "line", "zero")
    middle = float(band.attrib["x"]) + float(band.attrib["width"]) / 2
    assert middle == pytest.approx(float(zero.attrib["x1"]), abs=0.02)


def test_hostile_text_is_escaped_in_plots() -> None:
    hostile = "</text><script>alert(1)</script>"
    svg = effects_plot([DrawnEffect(hostile, 1.0, 0.0, 2.0, "faster")], hostile)
    assert "<script" not in svg
    assert fromstring(svg).get("aria-label") == hostile


def test_sample_plot_shows_dots_in_order_around_the_median() -> None:
    svg = samples_plot([3.0, 1.0, 2.0], "seconds", "s")
    dots = _of(svg, "circle", "mark")
    assert [it.findtext("title") for it in dots] == ["1: 3 s", "2: 1 s", "3: 2 s"]
    across = [float(it.attrib["cx"]) for it in dots]
    assert across == sorted(across)
    (line,) = _of(svg, "line", "line")
    assert float(line.attrib["y1"]) == float(dots[2].attrib["cy"])


def test_excluded_samples_are_hollow_and_do_not_move_the_median() -> None:
    svg = samples_plot([3.0, 1.0, 2.0, 9.0], "rates", "FLOPS", left_out={3})
    assert len(_of(svg, "circle", "mark")) == 3
    (hollow,) = _of(svg, "circle", "mark open")
    assert hollow.findtext("title") == "4: 9 FLOPS"
    (line,) = _of(svg, "line", "line")
    assert line.attrib["y1"] == _of(svg, "circle", "mark")[2].attrib["cy"]


def test_plot_axis_of_equal_values_is_widened() -> None:
    scale = scale_of([5.0, 5.0], 0, 100)
    assert scale(5.0) == 50
    assert Scale(0, 1, 100, 0).ticks(2) == [0.0, 0.5, 1.0]


def test_long_plot_labels_are_shortened_in_the_middle() -> None:
    assert fit_text("a" * 50 + "b" * 50, 66) == "aaaa…bbbb"


def test_long_label_of_an_effect_has_two_lines_above_its_mark() -> None:
    label = "numpy@2.4.2 to 2.4.6 in PiMatmul on other hardware (AMD EPYC Processor, 2 CPUs)"
    effects = [DrawnEffect(it, 1.0, 0.0, 2.0, "faster") for it in (label, "short")]
    svg = effects_plot(effects, "effects")
    names, dots = _of(svg, "text", "name"), _of(svg, "circle", "faster")
    first, second = names[1].text or "", names[0].text or ""
    assert label.startswith(f"{first} {second.removesuffix(' …')}")
    assert names[2].text == "short"
    grounds = _of(svg, "rect", "ground")
    for ground, dot in zip(grounds, dots, strict=True):
        end = float(ground.attrib["y"]) + float(ground.attrib["height"])
        assert end <= float(dot.attrib["cy"]) - float(dot.attrib["r"])
    assert float(grounds[0].attrib["height"]) > float(grounds[1].attrib["height"])


def test_history_plot_links_each_dot_to_its_job() -> None:
    jobs = [DrawnJob(1.0, "/jobs/1", "one"), DrawnJob(2.0, "/jobs/2", "two", counts=False)]
    runs = [
        DrawnRun("numpy 1", "2026-01-01", jobs, 1.5, 1.0, 2.0),
        DrawnRun("<numpy 2>", "2026-01-02", jobs[:1], 1.0, None, None, "a step of +5 %"),
    ]
    svg = history_plot(runs, "history", "GFLOP/s")
    links = list(fromstring(svg).iter("a"))
    assert [it.get("href") for it in links] == ["/jobs/1", "/jobs/2", "/jobs/1"]
    assert {it.get("tabindex") for it in links} == {"-1"}
    assert fromstring(svg).get("role") == "group"
    (hollow,) = _of(svg, "circle", "mark open")
    assert hollow.findtext("title") == "two"
    (step,) = _of(svg, "line", "step")
    assert step.findtext("title") == "a step of +5 %"
    assert len(_of(svg, "rect", "band")) == 1
    assert "&lt;numpy 2&gt;" in svg


def test_history_plot_labels_each_day_once() -> None:
    jobs = [DrawnJob(90.0, "/jobs/1", "one")] * 9
    days = ["2026-11-20", "2026-11-20", "2026-11-21"]
    runs = [DrawnRun("numpy", it, jobs, 90.0, None, None) for it in days]
    shown = [it.text for it in _of(history_plot(runs, "history", "GFLOP/s"), "text", "soft")]
    assert [it for it in shown if it in days] == ["2026-11-20", "2026-11-21"]


def test_distribution_plot_has_a_box_and_a_dot_for_each_job() -> None:
    jobs = tuple(DrawnJob(float(it), "", f"{it} ms", counts=it != 9) for it in (1, 2, 3, 4, 5, 9))
    few = DrawnDistribution("b", jobs[:2], (1.0, 1.5, 2.0))
    svg = distributions_plot(
        [DrawnDistribution("a", jobs, (2.0, 3.0, 4.0)), few], "durations", "ms"
    )
    assert len(_of(svg, "circle", "mark")) == 7
    (hollow,) = _of(svg, "circle", "mark open")
    assert hollow.findtext("title") == "9 ms"
    first, _ = _of(svg, "rect", "quartiles")
    assert first.findtext("title") == "lower quartile 2, median 3, upper quartile 4 ms"
