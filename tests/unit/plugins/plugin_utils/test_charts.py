# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import xml.etree.ElementTree as ET

from ansible_collections.firstlight.cluster.plugins.plugin_utils.charts import (
    Bar,
    Series,
    line_chart,
    stacked_bars,
)
from hypothesis import given
from hypothesis import strategies as st

SVG = "{http://www.w3.org/2000/svg}"
CURVE = Series("chat", [(1, 190), (16, 2249), (64, 5100)], [(1, 188, 192), (16, 2200, 2300), (64, 5000, 5200)])
ANY = st.floats(allow_nan=True, allow_infinity=True)
NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), max_size=80
)


def chart(*series: Series, log_x: bool = True) -> ET.Element:
    return ET.fromstring(line_chart(series, title="Tokens", x_label="streams", y_label="tokens/s", log_x=log_x))


def texts(svg: ET.Element) -> list[str]:
    return [one.text or "" for one in svg.iter(f"{SVG}text")]


def test_a_chart_tells_a_screen_reader_its_figures() -> None:
    svg = chart(CURVE)
    title, said = svg[0], svg[1]
    assert (svg.get("role"), svg.get("aria-labelledby")) == ("img", f"{title.get('id')} {said.get('id')}")
    assert title.text == "Tokens"
    assert "chat: 1 → 190, 16 → 2,249, 64 → 5,100" in (said.text or "")


def test_an_axis_has_its_label_and_round_figures_from_zero() -> None:
    found = texts(chart(CURVE))
    assert {"streams", "tokens/s", "0", "2,000", "6,000"} <= set(found)
    assert {"1", "16", "64"} <= set(found)


def test_series_differ_without_their_colour() -> None:
    svg = chart(CURVE, Series("latency", [(1, 100), (16, 200)]))
    drawn = {element.tag for group in svg.iter(f"{SVG}g") for element in group}
    assert {f"{SVG}circle", f"{SVG}rect"} <= drawn
    assert {"chat", "latency"} <= set(texts(svg))
    assert "stroke-dasharray" in ET.tostring(svg, encoding="unicode")


def test_a_band_is_drawn_between_the_lowest_and_the_highest_run() -> None:
    assert any(one.tag == f"{SVG}polygon" for one in chart(CURVE))
    assert not any(one.tag == f"{SVG}polygon" for one in chart(Series("chat", CURVE.points)))


def test_no_figures_are_said() -> None:
    assert "no figures" in texts(chart())
    assert "no figures" in texts(chart(Series("x", [(1, float("nan"))])))
    assert "no figures" in texts(ET.fromstring(stacked_bars([], title="t", unit="s")))


def test_parts_of_a_bar_have_the_numbers_of_the_legend() -> None:
    bars = [Bar("first", [("weights", 40), ("compile", 60)]), Bar("now", [("compile", 20)])]
    svg = ET.fromstring(stacked_bars(bars, title="Start-up", unit="s"))
    assert {"first: 100 s", "now: 20 s", "weights  40, 0 s", "compile  60, 20 s"} <= set(texts(svg))
    assert texts(svg).count("2") == 3


def test_two_charts_of_a_page_share_no_id() -> None:
    ids = [one.get("id") for svg in (chart(CURVE), chart(Series("b", CURVE.points))) for one in svg.iter()]
    named = [one for one in ids if one]
    assert len(named) == len(set(named))


@given(st.lists(st.tuples(NAMES, st.lists(st.tuples(ANY, ANY), max_size=5)), max_size=4), NAMES, st.booleans())
def test_any_figures_and_names_give_a_whole_picture(
    lines: list[tuple[str, list[tuple[float, float]]]], title: str, log_x: bool
) -> None:
    series = [Series(name, [(abs(x), abs(y)) for x, y in points]) for name, points in lines]
    svg = ET.fromstring(line_chart(series, title=title, x_label=title, y_label=title, log_x=log_x))
    assert svg[0].text in (title, None)
    assert "nan" not in "".join(one.get("points", "") + one.get("x", "") for one in svg.iter())
    bars = [Bar(name, [(title, x) for x, _ in points]) for name, points in lines]
    assert ET.fromstring(stacked_bars(bars, title=title, unit=title)).tag == f"{SVG}svg"
