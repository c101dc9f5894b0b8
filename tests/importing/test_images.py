"""Label images: depths, stacks, types, crop, scale, border."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.lattice import Lattice

from .making import Image, labels, problems, save_image, tifffile

EXAMPLE = Path(__file__).parents[2] / "examples" / "microscopy"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.png", "uint8"), ("a.png", "uint16"), ("a.tif", "uint8"), ("a.tif", "uint16"),
     ("a.tiff", "int32"), ("a.tif", "uint32"), ("a.tif", "int64"), ("a.tif", "float32")],
)  # fmt: skip
def test_every_depth_of_label_image(name: str, kind: str, load, tmp_path: Path) -> None:
    found, _ = load(save_image(tmp_path / name, labels(), kind))
    assert found.type_names == ("medium", "cell")
    assert found.lattice == Lattice.of((20, 24), "square", "free")
    assert found.types.tolist() == [[0, 1, 1, 1]]
    assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], labels())).all()
    assert found.arrays["source"].tolist() == [name]


def test_palette_images_keep_their_numbers(load, tmp_path: Path) -> None:
    image = Image.fromarray(labels().astype(np.uint8)).convert("P")
    image.putpalette([value % 256 for value in range(768)])
    image.save(tmp_path / "a.png")
    found, _ = load(tmp_path / "a.png")
    assert len(found[0].cells) == 3


@pytest.mark.filterwarnings("ignore:.*photometric.*:DeprecationWarning")  # a stack of three is stored as RGB
@pytest.mark.parametrize("options", [{}, {"imagej": True}, {"compression": "zlib"}, {"photometric": "minisblack"}])
def test_stacks_without_names_are_what_the_user_says(options: dict, cli, load, tmp_path: Path) -> None:
    stack = np.stack([labels(), labels(shift=1), labels(shift=2)]).astype(np.uint16)
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, stack, **options)
    sentence = problems(cli, path)[0]
    assert "has 3 planes and does not say whether they are depth or time" in sentence
    assert "--stack volume" in sentence
    found, _ = load(path, "--stack", "frames")
    assert found.arrays["source"].tolist() == ["stack.tif [0]", "stack.tif [1]", "stack.tif [2]"]
    assert (found.ids[2] > 0).sum() == (stack[2] > 0).sum()
    found, said = load(path, "--stack", "volume")
    assert found.lattice == Lattice.of(stack.shape, "cubic", "free")
    assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], stack)).all()
    assert "taken for cubes" in said


@pytest.mark.parametrize("options", [{"imagej": True}, {"ome": True}, {}])
def test_frames_that_are_named_are_snapshots(options: dict, load, tmp_path: Path) -> None:
    stack = np.stack([labels(), labels(shift=1), labels(shift=2)]).astype(np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", stack, metadata={"axes": "TYX"}, photometric="minisblack", **options)
    found, _ = load(tmp_path / "a.tif")
    assert len(found) == 3
    found, _ = load(tmp_path / "a.tif", "--stack", "volume")  # microscopes are known to call depth time
    assert found.lattice.shape == stack.shape


def test_lzw_is_read_too(load, tmp_path: Path) -> None:
    pages = [Image.fromarray(labels(shift=shift).astype(np.uint16)) for shift in (0, 1)]
    pages[0].save(tmp_path / "a.tif", compression="tiff_lzw", save_all=True, append_images=pages[1:])
    found, _ = load(tmp_path / "a.tif", "--stack", "frames")
    assert (found.ids > 0).sum(axis=(1, 2)).tolist() == [(labels() > 0).sum()] * 2
    assert (found.ids[0] != found.ids[1]).any()
    found, _ = load(tmp_path / "a.tif", "--stack", "volume")
    assert (found.ids[0] > 0).sum() == 2 * (labels() > 0).sum()


def test_types_from_a_table(load, tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", labels())
    save_image(tmp_path / "b.tif", labels())
    table = tmp_path / "types.csv"
    table.write_text("\ufeffLabel; Type ;FILE\n3;red;\n7;2;\n200;blue;a.png\n200;red;b.tif\n", encoding="utf-8")
    found, _ = load(tmp_path, "--types", table)
    assert found.type_names == ("medium", "red", "type2", "blue")
    assert found.types.tolist() == [[0, 1, 2, 3], [0, 1, 2, 1]]


def test_further_columns_of_the_table_are_properties(load, cli, tmp_path: Path) -> None:
    """By name, cell by cell, in the order of the data set's numbers; an index without a name is none."""
    for name in ("a.png", "b.png"):
        save_image(tmp_path / name, np.kron(labels(), np.ones((2, 2), dtype=int)))
    table = tmp_path / "types.csv"
    table.write_text(
        ",label,GFP intensity,type,file,age\n0,200,1e3,red,,5\n1,7,-2.5,red,,6\n2,3,0.5,red,b.png,8\n3,3,0,red,,7\n"
    )
    found, said = load(tmp_path, "--types", table, "--scale", 0.5)
    assert found.property_names == ("GFP_intensity", "age")
    assert found.properties.tolist() == [[[0, 0], [gfp, age], [-2.5, 6], [1000, 5]] for gfp, age in ((0, 7), (0.5, 8))]
    assert "properties GFP_intensity, age" in " ".join(said.split())
    (tmp_path / "b.png").unlink()
    found, _ = load(tmp_path, "--types", table, "--border", "crop")
    target = tmp_path / "out" / "data.npz"
    assert json.loads(cli("data", "info", target, "--json")[1])["properties"]["age"] == [5, 7]
    assert "age (5 to 7)" in " ".join(cli("data", "info", target)[1].split())


@pytest.mark.parametrize("channels", ["pages", "samples", "imagej"])
def test_types_from_a_second_channel(channels: str, load, tmp_path: Path) -> None:
    types = np.select([labels() == 3, labels() == 7, labels() == 200], [4, 1, 4])
    both = np.stack([labels(), types]).astype(np.uint16)
    path = tmp_path / "a.tif"
    if channels == "pages":
        tifffile.imwrite(path, np.concatenate([both, both]), photometric="minisblack")
    elif channels == "imagej":
        tifffile.imwrite(path, np.stack([both, both]), imagej=True, metadata={"axes": "TCYX"})
    else:
        tifffile.imwrite(path, np.moveaxis(both, 0, -1), planarconfig="contig", photometric="minisblack")
    asked = ("--stack", "frames") if channels == "pages" else ()
    found, _ = load(path, "--type-channel", "--type-names", "round, long", *asked)
    assert found.type_names == ("medium", "round", "long")
    assert found.types.tolist() == [[0, 2, 1, 2]] * (1 if channels == "samples" else 2)


def test_types_from_one_image_each(load, tmp_path: Path) -> None:
    for name in ("t1", "t2"):
        save_image(tmp_path / f"{name}_red.png", np.where(labels() == 3, 5, 0))
        save_image(tmp_path / f"{name}_blue.png", np.where(labels() > 3, labels(), 0))
    found, _ = load(tmp_path, "--type", "R=_red", "--type", "B=_blue")
    assert found.type_names == ("medium", "R", "B")
    assert found.types.tolist() == [[0, 1, 2, 2]] * 2
    assert (found[0].type_map > 0).sum() == (labels() > 0).sum()


def test_cellpose_masks_are_taken_and_the_micrographs_left(load, tmp_path: Path) -> None:
    save_image(tmp_path / "x.png", np.random.default_rng(0).integers(0, 255, (20, 24)), "uint8")
    save_image(tmp_path / "x_cp_masks.png", labels())
    found, _ = load(tmp_path)
    assert found.arrays["source"].tolist() == ["x_cp_masks.png"]


def test_crop_scale_and_border(load, tmp_path: Path) -> None:
    big = np.kron(labels(), np.ones((4, 4), dtype=int))
    save_image(tmp_path / "a.png", big)
    found, _ = load(tmp_path / "a.png", "--scale", 0.25)
    assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], labels())).all()
    found, _ = load(tmp_path / "a.png", "--crop", "40x48+8+8")
    assert (found[0].ids > 0).sum() == (big[8:48, 8:56] > 0).sum()
    found, _ = load(tmp_path / "a.png", "--crop", "60x72")
    assert (found[0].ids > 0).sum() == (big[10:70, 12:84] > 0).sum()
    found, said = load(tmp_path / "a.png", "--crop", "64x80+16+0", "--border", "drop")
    assert len(found[0].cells) == 1
    assert "Cells taken out at the border: 2." in said
    found, said = load(tmp_path / "a.png", "--crop", "64x80+16+0", "--border", "crop")
    assert found.ids.shape[1:] == (6 * 4 + 10, 6 * 4 + 10)
    assert len(found[0].cells) == 1


def test_the_command_knows_every_way_with_border_cells() -> None:
    from neuralcpm_bridge.app.cli.data import Border
    from neuralcpm_bridge.importers import BORDERS

    assert tuple(border.value for border in Border) == BORDERS


def test_border_crop_gives_all_one_size(load, tmp_path: Path) -> None:
    for number, shift in enumerate((0, 30, 60)):
        image = np.zeros((120, 100), dtype=int)
        image[5 + shift : 40 + shift - number, 20 + number : 50] = 1
        image[0:3, 0:3] = 2
        save_image(tmp_path / f"{number}.png", image)
    found, said = load(tmp_path, "--border", "crop")
    assert found.ids.shape[1:] == (45, 40)
    assert (found.ids > 0).sum(axis=(1, 2)).tolist() == [35 * 30, 34 * 29, 33 * 28]
    assert "Cells taken out at the border: 3." in said


def test_cells_lost_in_resampling_are_said(load, tmp_path: Path) -> None:
    image = np.kron(labels(), np.ones((4, 4), dtype=int))
    image[1, 1] = 9
    _, said = load(save_image(tmp_path / "a.png", image), "--scale", 0.25)
    assert "Cells too small to survive the resampling: 1." in said


def test_a_tissue_lost_in_resampling_is_refused(refused, tmp_path: Path) -> None:
    image = np.kron(labels(), np.ones((4, 4), dtype=int))
    image[1, 1], image[1, 5] = 9, 10
    path = save_image(tmp_path / "a.png", image)
    assert "2 of 5 cells" in refused("data", "import", path, "--scale", 0.25, "-o", tmp_path / "none.npz")
    assert not (tmp_path / "none.npz").exists()


@pytest.mark.parametrize("scale", ["1e-9", "0.02"])
def test_resampling_that_leaves_a_few_cells_of_many_is_refused(scale: str, refused, tmp_path: Path) -> None:
    said = refused("data", "import", EXAMPLE, "--scale", scale, "-o", tmp_path / "none.npz")
    assert "of 316 cells are too small to survive the resampling" in said
    assert not (tmp_path / "none.npz").exists()


def test_a_single_cell_needs_a_shape_too(refused, tmp_path: Path) -> None:
    path = save_image(tmp_path / "a.png", np.pad(np.ones((30, 30), dtype=int), 9))
    assert "no shape" in refused("data", "import", path, "--scale", 1e-9, "-o", tmp_path / "none.npz")
    assert not (tmp_path / "none.npz").exists()


def test_the_scale_that_suits_the_cells(load, tmp_path: Path) -> None:
    """Recommended where cells are too large for a model to move, and what --scale auto takes; otherwise left alone."""
    small = save_image(tmp_path / "small.png", labels())
    large = save_image(tmp_path / "large.png", np.kron(labels(), np.ones((8, 8), dtype=int)))
    found, said = load(small)
    assert "--scale" not in said
    found, said = load(small, "--scale", "auto")
    assert "--scale auto is 1: cells are 6 sites across." in said
    assert found.provenance["scale"] == 1
    found, said = load(large)
    assert "Cells are 50 sites across, which a model moves slowly: --scale 0.24 (what --scale auto chooses)" in said
    assert found.lattice.shape == (160, 192)
    automatic, said = load(large, "--scale", "auto")
    assert "--scale auto is 0.24: cells are 12 sites across." in said
    assert automatic.provenance["scale"] == 0.24
    by_hand, said = load(large, "--scale", 0.24)
    assert (automatic.ids == by_hand.ids).all()
    assert "--scale" not in said


@pytest.mark.parametrize("names", ["A,A", "A,", "medium,A"])
def test_types_need_names_of_their_own(names: str, refused, tmp_path: Path) -> None:
    types = EXAMPLE / "types.csv"
    said = refused("data", "import", EXAMPLE, "--types", types, "--type-names", names, "-o", tmp_path / "none.npz")
    assert "a name of its own" in said


def test_the_bundled_example(load) -> None:
    found, _ = load(EXAMPLE, "--types", EXAMPLE / "types.csv", "--scale", 0.5)
    assert len(found) == 12
    assert found.ids.shape[1:] == (100, 100)
    assert set(found.type_names) == {"medium", "luminal", "basal"}


def test_importing_twice_into_the_folder_of_the_images(cli, tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", labels())
    for _ in range(2):
        code, _, err = cli("data", "import", tmp_path, "-o", tmp_path / "data.npz")
        assert code == 0, err
