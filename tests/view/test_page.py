"""The page of view in a headless Chromium, by clicks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..browser import Page, find_browser, open_page
from .conftest import analytic

BROWSER = find_browser()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium (Debian: apt-get install chromium)")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    assert BROWSER is not None
    with open_page(BROWSER, tmp_path / "profile") as opened:
        yield opened
        assert opened.complaints == []


@pytest.fixture
def show(serve, page: Page) -> Callable[..., Page]:
    def call(*model: object, width: int = 1200, **options: object) -> Page:
        server = serve(*model, **options)
        page.open(server.address, width)
        page.wait_for("document.body.dataset.ready")
        assert all(address.startswith((server.origin, "data:")) for address in page.requests)
        return page

    return call


def text(page: Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({selector!r}).textContent"))


def picture(page: Page) -> str:
    return str(page.evaluate("document.querySelector('#tissue').toDataURL()"))


def slide(page: Page, selector: str, value: float) -> None:
    page.evaluate(
        f"(() => {{ const e = document.querySelector({selector!r}); e.value = {value}; "
        "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); })()"
    )


@pytest.mark.parametrize("width", [1200, 390])
def test_start_pause_step_restart(width: int, show) -> None:
    page = show(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert text(page, "#name") == "elongated-cells"
    first = picture(page)
    page.click("#step")
    page.wait_for("document.querySelector('#mcs').textContent === '1'")
    assert picture(page) != first
    page.click("#run")
    assert text(page, "#run") == "Pause"
    page.wait_for("Number(document.querySelector('#mcs').textContent) >= 5")
    page.click("#run")
    assert text(page, "#run") == "Start"
    page.click("#restart")
    page.wait_for("document.querySelector('#mcs').textContent === '0'")
    assert picture(page) == first
    assert text(page, "#error") == ""


def test_a_click_on_a_cell_says_what_it_is(show) -> None:
    page = show()
    page.click("#tissue", 0.02, 0.02)  # medium
    assert text(page, "#cell-hint") == "Click on a cell."
    page.click("#tissue")
    page.wait_for("document.querySelectorAll('#cell-facts dd').length >= 6")
    facts = text(page, "#cell-facts")
    for word in ("type", "volume", "sites (training data: ", "energy", "learned"):
        assert word in facts
    assert "has cells like it" in facts or "has no cell like it" in facts


def test_sliders(serve, page: Page) -> None:
    server = serve()
    page.open(server.address, 1200)
    page.wait_for("document.body.dataset.ready")
    slide(page, "#temperature", 2)
    slide(page, "#weight", 0.5)
    slide(page, "#steps", 2)
    assert text(page, "#weight-value") == "× 0.50"
    page.click("#step")
    page.wait_for("document.querySelector('#mcs').textContent === '5'")
    assert server.tissue.dynamics.temperature == 2
    assert server.tissue.weight == 0.5


def test_charts_follow_and_show_the_data(show) -> None:
    page = show()
    assert "training data" in text(page, "#bands-from")
    assert page.evaluate("document.querySelectorAll('#charts .band').length") == 3  # volume, shapes of two types
    for _ in range(2):
        page.click("#step")
    page.wait_for("document.querySelector('#charts polyline').getAttribute('points').split(' ').length === 3")
    slide(page, "#steps", 3)
    page.click("#run")
    page.wait_for("Number(document.querySelector('#mcs').textContent) >= 50")
    page.click("#run")
    ends = "[...document.querySelectorAll('#charts svg')].map((chart) => [...chart.querySelectorAll('text')].pop())"
    page.wait_for(f"{ends}.every((end) => end.textContent === document.querySelector('#mcs').textContent + ' MCS')")


def test_slices(show) -> None:
    page = show(analytic("cubic"), lattice="12x14x16", cells=3)
    first = picture(page)
    slide(page, "#index", 5)
    page.wait_for("document.querySelector('#index-value').textContent === '5'")
    page.evaluate(
        "(() => { const e = document.querySelector('#axis'); e.value = 2; e.dispatchEvent(new Event('change')); })()"
    )
    page.wait_for("document.querySelector('#index').max === '15'")
    page.wait_for("document.querySelector('#tissue').width !== document.querySelector('#tissue').height")
    assert picture(page) != first


def test_hexagons_and_no_network(show) -> None:
    page = show(analytic("hexagonal"), lattice="12x10", cells=3)
    assert page.evaluate("document.querySelector('#weight-row').hidden") is True
    before = picture(page)
    page.click("#step")
    page.wait_for("document.querySelector('#mcs').textContent === '1'")
    assert picture(page) != before


def test_when_the_program_has_ended(serve, page: Page) -> None:
    server = serve()
    page.open(server.address, 1200)
    page.wait_for("document.body.dataset.ready")
    server.turn.acquire()  # an answer that does not come: the page keeps its buttons
    page.click("#run")
    page.click("#run")
    assert text(page, "#run") == "Start"
    server.turn.release()
    page.wait_for("document.querySelector('#mcs').textContent === '1'")
