"""Images of outlines: what is one, which region is the medium, where walls go; and copies of grey in colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralcpm_bridge.importers.outlines import enclosed
from neuralcpm_bridge.metrics import fragments
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .making import Image, drawn, labels, problems, save_image, tifffile, tissue


def count(cells: np.ndarray) -> int:
    return np.unique(cells[cells > 0]).size


def same_cells(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the sites that lie in corresponding cells; each cell of `a` is the one of `b` it shares most with."""
    pairs = np.stack([a.ravel(), b.ravel()])
    kinds, counts = np.unique(pairs, axis=1, return_counts=True)
    return sum(counts[kinds[0] == cell].max() for cell in np.unique(a)) / a.size


CLUSTER = tissue((80, 96), 16, seed=3, medium=True)
CONFLUENT = tissue((80, 96), 16, seed=4, medium=False)


@given(seed=st.integers(0, 10**6), dark=st.booleans(), medium=st.booleans())
def test_cells_come_back_from_their_walls(seed: int, dark: bool, medium: bool) -> None:
    """Whole, as many as were drawn, and where they were but for the walls."""
    cells = tissue((80, 96), 16, seed, medium)
    found = enclosed(drawn(cells, dark))
    assert found is not None
    got, told = found
    assert ("dark" in told, "is the medium" in told and "no region" not in told) == (dark, medium)
    state = CellState.from_labels(got)
    assert (fragments(state)[state.cells] == 1).all()
    assert state.cells.size == count(cells)
    assert same_cells(cells, got) > 0.9


@pytest.mark.parametrize("dark", [False, True])
def test_outlines_in_a_volume(dark: bool) -> None:
    cells = tissue((40, 40, 40), 10, seed=1, medium=True)
    found = enclosed(drawn(cells, dark))
    assert found is not None
    assert count(found[0]) == count(cells)
    assert same_cells(cells, found[0]) > 0.9


def grey(image: np.ndarray) -> np.ndarray:
    return np.repeat(image[..., None], 3, axis=-1)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
@pytest.mark.parametrize("change", ["as it is", "dark", "bits", "RGB", "RGBA"])
def test_every_way_to_save_outlines(name: str, change: str, load, tmp_path: Path) -> None:
    image = drawn(CLUSTER, dark=change == "dark")
    if change == "bits":
        image = image > 0
    elif change.startswith("RGB"):
        image = grey(image)
    if change == "RGBA":
        image = np.concatenate([image, np.full_like(image[..., :1], 255)], axis=-1)
    path = tmp_path / name
    if name.endswith("png"):
        Image.fromarray(image).save(path)
    else:
        tifffile.imwrite(path, image, **({"photometric": "rgb"} if image.ndim == 3 else {}))
    found, said = load(path)
    assert (
        f"1 file is an image of outlines: cells are what the {'dark' if change == 'dark' else 'bright'} walls" in said
    )
    assert "the largest region at the border is the medium" in said
    assert len(found[0].cells) == count(CLUSTER)
    assert same_cells(CLUSTER, found.ids[0]) > 0.9
    assert found.type_names == ("medium", "cell")


def test_a_frame_around_the_image_belongs_to_the_medium(load, tmp_path: Path) -> None:
    image = drawn(CLUSTER)
    for edge in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
        image[edge] = 255
    found, _ = load(save_image(tmp_path / "a.png", image, "uint8"))
    assert len(found[0].cells) == count(CLUSTER)
    assert not any(edge.any() for edge in (found.ids[0][0], found.ids[0][-1], found.ids[0][:, 0], found.ids[0][:, -1]))


def test_loose_ends_and_holes_in_walls_are_no_cells(load, tmp_path: Path) -> None:
    image = drawn(CLUSTER)
    image[1, 2:40] = 255  # a line in the medium
    image[6:9, 3:6] = 255
    image[7, 4] = 0  # a hole of one site
    found, _ = load(save_image(tmp_path / "a.png", image, "uint8"))
    assert len(found[0].cells) == count(CLUSTER)
    assert not found.ids[0][1].any()


def test_tissue_that_fills_the_image_has_no_medium(load, tmp_path: Path) -> None:
    found, said = load(save_image(tmp_path / "a.png", drawn(CONFLUENT), "uint8"))
    assert "no region at the border is the medium" in said
    assert (found.ids > 0).all()
    assert len(found[0].cells) == count(CONFLUENT)


def test_where_the_medium_cannot_be_told_it_is_asked_for(cli, load, tmp_path: Path) -> None:
    """A tissue that fills the left of the image: what is right of it is large, but less than half of the border."""
    cells = CONFLUENT.copy()
    cells[:, 70:] = 999
    path = save_image(tmp_path / "a.png", drawn(cells), "uint8")
    sentence = problems(cli, path)[0]
    assert "may be the medium or a cell: pass --medium outside or --medium none" in sentence
    found, _ = load(path, "--medium", "outside")
    assert not found.ids[0][:, 74:].any()
    found, _ = load(path, "--medium", "none")
    assert (found.ids > 0).all()


def test_frames_of_outlines_are_a_movie(load, tmp_path: Path) -> None:
    for number in range(5):
        save_image(tmp_path / f"t{number}.png", drawn(np.roll(CLUSTER, number, axis=1)), "uint8")
    found, said = load(tmp_path, "--frame-interval", "3min")
    assert "5 files: each is an image of outlines" in said
    assert found.arrays["time"].tolist() == [0, 3, 6, 9, 12]
    tifffile.imwrite(tmp_path / "all.tif", np.stack([drawn(CLUSTER)] * 3), photometric="minisblack")
    found, _ = load(tmp_path / "all.tif", "--stack", "frames")
    assert len(found) == 3


@pytest.mark.parametrize(
    "image",
    [
        labels() > 0,  # one cell in two pieces
        labels() == 200,
        np.pad(np.ones((2, 2)), 4),
        np.pad(np.ones((1, 9)), 4),
        np.ones((9, 9)),
        np.repeat([[1, 2]], 4, axis=1).repeat(8, axis=0),
        CLUSTER > 0,
        CLUSTER,
    ],
)
def test_label_images_are_not_taken_for_outlines(image: np.ndarray) -> None:
    assert enclosed(image.astype(np.int64)) is None


def test_where_either_value_may_be_walls_nothing_is_guessed(cli, tmp_path: Path) -> None:
    stripes = np.zeros((20, 24), dtype=np.uint8)
    stripes[:, ::4] = stripes[:, 1::4] = 255
    sentence = problems(cli, save_image(tmp_path / "a.png", stripes, "uint8"))[0]
    assert "either may be the walls between cells" in sentence


def test_a_mask_of_many_cells_is_refused_with_what_to_do(cli, tmp_path: Path) -> None:
    sentence = problems(cli, save_image(tmp_path / "a.png", np.where(labels() > 0, 255, 0), "uint8"))[0]
    assert "one label in 2 pieces" in sentence
    assert "Connected Components Labeling" in sentence


def test_outlines_have_no_numbers_for_a_table(cli, tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", drawn(CLUSTER), "uint8")
    (tmp_path / "types.csv").write_text("label,type\n1,a\n")
    assert "cells have no numbers" in problems(cli, tmp_path, "--types", tmp_path / "types.csv")[0]


def test_label_images_in_copies_of_grey(load, cli, tmp_path: Path) -> None:
    image = grey(labels().astype(np.uint8))
    Image.fromarray(image).save(tmp_path / "a.png")
    tifffile.imwrite(tmp_path / "b.tif", image, photometric="rgb")
    for name in ("a.png", "b.tif"):
        found, _ = load(tmp_path / name)
        assert isinstance(found, Snapshots)
        assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], labels())).all()
    image[4, 4, 2] += 1
    Image.fromarray(image).save(tmp_path / "c.png")
    assert "colour picture" in problems(cli, tmp_path / "c.png")[0]
    clear = np.concatenate([grey(labels().astype(np.uint8)), (labels()[..., None] > 3).astype(np.uint8)], axis=-1)
    Image.fromarray(clear).save(tmp_path / "d.png")
    assert "colour picture" in problems(cli, tmp_path / "d.png")[0]
