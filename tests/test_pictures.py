"""Pictures: right colours, right sizes, every sentence of a refusal."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from neuralcpm_bridge import pictures
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.pictures import drawing
from neuralcpm_bridge.pictures.charts import nice_ticks
from neuralcpm_bridge.pictures.drawing import INK, MEDIUM, PAPER, printable, shortened, text_width
from neuralcpm_bridge.pictures.planes import Paint, hexagon_extent
from neuralcpm_bridge.pictures.solids import outside
from neuralcpm_bridge.state import CellState


@pytest.fixture
def state() -> CellState:
    ids = np.zeros((20, 30), dtype=int)
    ids[4:10, 4:10], ids[4:10, 10:18], ids[12:16, 5:12] = 1, 2, 3
    return CellState(ids, [0, 1, 2, 2])


def test_a_state_shows_types_medium_and_borders(state: CellState) -> None:
    for scale in (1, 2, 4, 7):
        picture = pictures.state_image(state, scale)
        assert picture.shape == (20 * scale, 30 * scale, 3)
        assert picture.dtype == np.uint8
        inside = scale // 2
        assert tuple(picture[6 * scale + inside, 6 * scale + inside]) == pictures.type_colour(1)
        assert tuple(picture[6 * scale + inside, 14 * scale + inside]) == pictures.type_colour(2)
        assert tuple(picture[inside, inside]) == MEDIUM
        between = picture[6 * scale + inside, 9 * scale : 11 * scale]
        assert (between == INK).all(axis=1).any(), "two cells side by side have a border between them"
        assert (picture[0] == MEDIUM).all(), "the lattice's border is no cell's border"


def test_colours_of_types_differ_and_come_again() -> None:
    colours = [pictures.type_colour(number) for number in range(9)]
    assert len(set(colours)) == 9
    assert pictures.type_colour(9) == pictures.type_colour(1)


@pytest.mark.parametrize("shape", [(20, 20), (33, 50), (500, 300), (7, 400)])
def test_a_tile_fills_its_side(shape: tuple[int, int]) -> None:
    image = pictures.tile(CellState(np.zeros(shape, dtype=int), [0]), 200)
    assert max(image.size) == 200
    assert image.width / image.height == pytest.approx(shape[1] / shape[0], rel=0.2)


# -- hexagons ------------------------------------------------------------------------------------------------------

HEXAGONAL = [
    Lattice.of((7, 6), "hexagonal", "free"),
    Lattice.of((7, 6), "hexagonal", "periodic"),
    Lattice.of((6, 6), "hexagonal", "free", "rows"),
    Lattice.of((6, 6), "hexagonal", "periodic", "rows"),
]


@pytest.mark.parametrize("lattice", HEXAGONAL)
def test_hexagons_lie_where_their_sites_do(lattice: Lattice) -> None:
    scale = 12
    height, width = hexagon_extent(lattice)
    left, top = lattice.middle[1] - width / 2, -1 / np.sqrt(3)
    for site in (0, 8, 17, lattice.sites - 1):
        ids = np.zeros(lattice.sites, dtype=int)
        ids[site] = 1
        picture = pictures.state_image(CellState(ids.reshape(lattice.shape), [0, 1], lattice), scale)
        assert picture.shape == (round(height * scale), round(width * scale), 3)
        cell = (picture == pictures.type_colour(1)).all(axis=2)
        line = (picture == INK).all(axis=2)
        y, x = lattice.positions(np.array([site]))[0]
        x = left + (x - left) % lattice.shape[1] if lattice.periodic[1] else x
        assert cell[int((y - top) * scale), int((x - left) * scale) % cell.shape[1]]
        assert cell.sum() <= scale**2 * lattice.geometry.site_volume <= cell.sum() + line.sum()


@pytest.mark.parametrize("lattice", HEXAGONAL)
def test_every_hexagon_is_on_the_picture_once(lattice: Lattice) -> None:
    from neuralcpm_bridge.pictures.planes import NOWHERE, hexagon_sites

    scale = 20
    sites = hexagon_sites(lattice, scale)
    areas = np.bincount(sites[sites != NOWHERE], minlength=lattice.sites) / scale**2
    assert areas == pytest.approx(np.full(lattice.sites, lattice.geometry.site_volume), rel=0.06)
    beyond = (pictures.state_image(CellState(np.zeros(lattice.shape, int), [0], lattice), scale) == PAPER).all(axis=2)
    np.testing.assert_array_equal(beyond, sites == NOWHERE)


@pytest.mark.parametrize("lattice", HEXAGONAL)
def test_a_tile_of_hexagons_fills_its_side(lattice: Lattice) -> None:
    height, width = hexagon_extent(lattice)
    image = pictures.tile(CellState(np.zeros(lattice.shape, int), [0], lattice), 200)
    assert max(image.size) == 200
    assert image.width / image.height == pytest.approx(width / height, rel=0.02)


# -- 3D ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def solid() -> CellState:
    """A box of type 1 behind and below one of type 2, seen from above and in front."""
    ids = np.zeros((16, 20, 24), dtype=int)
    ids[2:8, 4:10, 4:20], ids[2:14, 10:18, 2:22] = 1, 2
    return CellState(ids, [0, 1, 2])


def close_to(pixels: np.ndarray, colour: tuple[int, int, int], least: float = 0.5) -> np.ndarray:
    """Pixels of a colour, shaded down to a share of it."""
    share = pixels / np.array(colour)
    return (share.std(axis=-1) < 0.04) & (share.mean(axis=-1) > least) & (share.mean(axis=-1) < 1.03)


def test_a_solid_shows_what_is_in_front_and_its_middle_slices(solid: CellState) -> None:
    view = np.asarray(outside(solid, 200, Paint.by_type(solid.types)))
    assert close_to(view, pictures.type_colour(2)).mean() > 0.1
    assert close_to(view, pictures.type_colour(1)).mean() < 0.02, "what lies behind is hidden"
    picture = np.asarray(pictures.tile(solid, 400))
    assert max(picture.shape) == 400
    below_left = picture[picture.shape[0] * 3 // 4 :, : picture.shape[1] // 2 - 10]
    assert close_to(below_left, pictures.type_colour(1)).any(), "the slice at x = 12 shows both"
    assert close_to(below_left, pictures.type_colour(2)).any()


def test_the_lit_side_is_brighter(solid: CellState) -> None:
    view = np.asarray(outside(solid, 300, Paint.by_type(solid.types))).astype(float)
    seen = close_to(view, pictures.type_colour(2))
    brightness = view.sum(axis=2)
    rows = np.flatnonzero(seen.any(axis=1))
    above, below = rows[len(rows) // 5], rows[-len(rows) // 5]
    assert brightness[above][seen[above]].mean() > 1.1 * brightness[below][seen[below]].mean()


def test_no_pixel_of_a_solid_is_left_out(solid: CellState) -> None:
    full = CellState(np.ones_like(solid.ids), [0, 1])
    for side in (40, 130, 300):
        view = np.asarray(outside(full, side, Paint.by_type(full.types)))
        medium = np.abs(view.astype(int) - MEDIUM).sum(axis=2) < 3
        for line in (view.shape[0] // 2, view.shape[0] // 3):
            inside = np.flatnonzero(~medium[line])
            assert not medium[line, inside[0] : inside[-1]].any()


def test_sheets_and_animations_of_solids(solid: CellState, tmp_path: Path) -> None:
    sheet = pictures.contact_sheet([solid] * 3, ["a", "b", "c"], 3, "Three", ("medium", "A", "B"))
    assert sheet.width > 3 * 200
    pictures.save_gif([solid] * 3, tmp_path / "a.gif", ["0 MCS"], ("medium", "A", "B"))
    with Image.open(tmp_path / "a.gif") as read:
        assert read.size[0] > 400
    for shape in ((1, 1, 1), (2, 30, 5), (30, 2, 5)):
        empty = CellState(np.zeros(shape, dtype=int), [0])
        assert abs(max(pictures.tile(empty, 200).size) - 200) <= 3


def test_sheet_strip_and_their_sizes(state: CellState, tmp_path: Path) -> None:
    sheet = pictures.contact_sheet([state] * 7, [f"state {n}" for n in range(7)], 3, "Seven", ("medium", "A", "B"))
    row = pictures.strip([state] * 7, side=90)
    assert sheet.height > 3 * 133
    assert row.width > 7 * 90
    assert row.height < 2 * 90
    pictures.save_png(sheet, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as read:
        assert read.size == sheet.size
    assert Image.open(io.BytesIO(pictures.png_bytes(pictures.state_image(state)))).size == (120, 80)


def test_gif_has_all_frames_and_repeats(state: CellState, tmp_path: Path) -> None:
    grown = state.ids.copy()
    frames = []
    for number in range(4):
        grown[16 + number, 5:12] = 3
        frames.append(CellState(grown.copy(), state.types))
    pictures.save_gif(frames, tmp_path / "a.gif", ["0 MCS", "", "2 MCS"], ("medium", "A", "B"))
    with Image.open(tmp_path / "a.gif") as read:
        assert read.n_frames == 4
        assert read.info["loop"] == 0
        colours = np.asarray(read.convert("RGB")).reshape(-1, 3)
        for kind in (1, 2):
            assert (np.abs(colours.astype(int) - pictures.type_colour(kind)).sum(axis=1) < 12).any()


def test_chart_draws_lines_gaps_and_single_points() -> None:
    x = np.arange(50.0)
    y = np.where(x == 20, math.nan, np.sin(x / 8))
    lines = [pictures.Line("loss λ", x, y), pictures.Line("truth", [0, 49], [0.5, 0.5], dashed=True)]
    image = pictures.line_chart([*lines, pictures.Line("end", [49], [1.0])], "Title", "step", "value")
    assert image.size == (720, 400)
    assert len(image.getcolors(1 << 20)) > 20
    assert pictures.line_chart([pictures.Line("one", [3], [7])], size=(300, 200)).size == (300, 200)


@given(st.floats(-1e6, 1e6, allow_subnormal=False), st.floats(1e-4, 1e6, allow_subnormal=False))
def test_ticks_enclose_the_values_in_few_even_steps(low: float, width: float) -> None:
    ticks = nice_ticks(low, low + width)
    step = ticks[1] - ticks[0]
    assert ticks[0] <= low + 1e-6 * step + 1e-9 * abs(low)
    assert ticks[-1] >= low + width - 1e-6 * step - 1e-9 * abs(low)
    assert 2 <= len(ticks) <= 9


def test_texts_are_spelled_in_letters_the_typeface_has() -> None:
    assert printable("λ = 3×10² µm, Müller, 細胞") == "lambda = 3x102 um, Muller, ??"
    long = "a_very_long_name_of_an_image_file_0017.tif"
    short = shortened(long, 13, 120)
    assert text_width(short, 13) <= 120
    assert short.startswith("a_v")
    assert short.endswith(".tif")


def test_names_of_any_length_are_shortened_in_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text is measured slowly, and strangers choose names: 70,000 letters must not take minutes."""
    measured = []
    monkeypatch.setattr(drawing, "text_width", lambda text, size: measured.append(text) or text_width(text, size))
    short = shortened("x" * 70_000, 13, 120)
    assert 110 < text_width(short, 13) <= 120
    assert len(measured) < 25
    assert shortened("xxxxx", 13, 0) == "x"


@pytest.mark.parametrize(
    "draw",
    [
        lambda folder: pictures.contact_sheet([]),
        lambda folder: pictures.save_gif([], folder / "a.gif"),
        lambda folder: pictures.line_chart([]),
        lambda folder: pictures.line_chart([pictures.Line("nothing", [1], [math.nan])]),
        lambda folder: pictures.line_chart([pictures.Line("uneven", [1, 2], [1])]),
        lambda folder: pictures.save_png(np.zeros((2, 2, 3), np.uint8), folder),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refusal:
        draw(tmp_path)
    assert str(refusal.value).endswith(".")
    assert not list(tmp_path.iterdir())
