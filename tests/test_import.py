"""Importing: every format, every option, and every way in which a file can be wrong."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.cli import app
from neuralcpm_bridge.cli.data import data_app
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState

Image = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")

EXAMPLE = Path(__file__).parents[1] / "examples" / "microscopy"


@pytest.fixture(autouse=True, scope="module")
def registered() -> None:
    if all(group.typer_instance is not data_app for group in app.registered_groups):
        app.add_typer(data_app)


def labels(shape: tuple[int, int] = (20, 24), shift: int = 0) -> np.ndarray:
    """Three cells with labels 3, 7 and 200."""
    image = np.zeros(shape, dtype=np.int64)
    image[3 + shift : 8 + shift, 3:9], image[3 + shift : 8 + shift, 9:14], image[10 + shift : 16 + shift, 6:12] = (
        3,
        7,
        200,
    )
    return image


def save_image(path: Path, image: np.ndarray, kind: str = "uint16") -> Path:
    if path.suffix == ".png":
        Image.fromarray(image.astype(kind)).save(path)
    else:
        tifffile.imwrite(path, image.astype(kind))
    return path


@pytest.fixture
def load(cli, tmp_path: Path):
    """Import files and give back the data set and what was printed."""

    def call(*arguments: object) -> tuple[Snapshots, str]:
        target = tmp_path / "out" / "data.npz"
        code, out, err = cli("data", "import", *arguments, "-o", target)
        assert code == 0, err
        with Image.open(target.with_suffix(".png")) as sheet:
            assert sheet.width > 100
        return load_snapshots(target), out + err

    return call


def problems(cli, *arguments: object) -> list[str]:
    """The lines of an import that must fail without writing anything."""
    folder = Path(str(arguments[0]))
    target = (folder if folder.is_dir() else folder.parent) / "none" / "data.npz"
    code, _, err = cli("data", "import", *arguments, "-o", target)
    assert code == 2, err
    assert "Traceback" not in err
    assert not target.parent.exists()
    lines = err.strip().splitlines()
    assert all(line.startswith("neuralcpm: ") and line.endswith(".") for line in lines), err
    return lines


# -- label images -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.png", "uint8"), ("a.png", "uint16"), ("a.tif", "uint8"), ("a.tif", "uint16"),
     ("a.tiff", "int32"), ("a.tif", "uint32"), ("a.tif", "int64"), ("a.tif", "float32")],
)  # fmt: skip
def test_every_depth_of_label_image(name: str, kind: str, load, tmp_path: Path) -> None:
    found, _ = load(save_image(tmp_path / name, labels(), kind))
    assert found.type_names == ("medium", "cell")
    assert found.boundary == "free"
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
def test_stacks_are_many_snapshots(options: dict, load, tmp_path: Path) -> None:
    stack = np.stack([labels(), labels(shift=1), labels(shift=2)]).astype(np.uint16)
    tifffile.imwrite(tmp_path / "stack.tif", stack, **options)
    found, _ = load(tmp_path / "stack.tif")
    assert len(found) == 3
    assert found.arrays["source"].tolist() == ["stack.tif [0]", "stack.tif [1]", "stack.tif [2]"]
    assert (found.ids[2] > 0).sum() == (stack[2] > 0).sum()


def test_lzw_is_read_too(load, tmp_path: Path) -> None:
    pages = [Image.fromarray(labels(shift=shift).astype(np.uint16)) for shift in (0, 1)]
    pages[0].save(tmp_path / "a.tif", compression="tiff_lzw", save_all=True, append_images=pages[1:])
    found, _ = load(tmp_path / "a.tif")
    assert (found.ids > 0).sum(axis=(1, 2)).tolist() == [(labels() > 0).sum()] * 2
    assert (found.ids[0] != found.ids[1]).any()


def test_types_from_a_table(load, tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", labels())
    save_image(tmp_path / "b.tif", labels())
    table = tmp_path / "types.csv"
    table.write_text("\ufeffLabel; Type ;FILE\n3;red;\n7;2;\n200;blue;a.png\n200;red;b.tif\n", encoding="utf-8")
    found, _ = load(tmp_path, "--types", table)
    assert found.type_names == ("medium", "red", "type2", "blue")
    assert found.types.tolist() == [[0, 1, 2, 3], [0, 1, 2, 1]]


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
    found, _ = load(path, "--type-channel", "--type-names", "round, long")
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
    assert "2 cells at the border were taken out." in said
    found, said = load(tmp_path / "a.png", "--crop", "64x80+16+0", "--border", "crop")
    assert found.ids.shape[1:] == (6 * 4 + 10, 6 * 4 + 10)
    assert len(found[0].cells) == 1


def test_the_command_knows_every_way_with_border_cells() -> None:
    from neuralcpm_bridge.cli.data import Border
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
    assert "3 cells at the border" in said


def test_cells_lost_in_resampling_are_said(load, tmp_path: Path) -> None:
    image = np.kron(labels(), np.ones((4, 4), dtype=int))
    image[1, 1] = 9
    _, said = load(save_image(tmp_path / "a.png", image), "--scale", 0.25)
    assert "1 cells were too small to survive the resampling." in said


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


# -- what is wrong with images ----------------------------------------------------------------------------------


def bad_folder(folder: Path) -> None:
    for number in range(4):
        save_image(folder / f"good{number}.png", labels(shift=number))
    (folder / "broken.tif").write_bytes(b"II*\x00\x08\x00\x00\x00 this is no image")
    save_image(folder / "empty.png", np.zeros((20, 24)))
    torn = labels()
    torn[:, 4] = 0
    save_image(folder / "torn.png", torn)
    save_image(folder / "large.png", labels((40, 24)))
    save_image(folder / "larger.png", labels((41, 24)))


def test_a_folder_with_every_kind_of_bad_file(cli, load, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    bad_folder(folder)
    *named, last = problems(cli, folder)
    assert len(named) == 5
    for name, words in {
        "broken.tif": "not a readable image",
        "empty.png": "no cells",
        "torn.png": "Cell 3 is in 2 pieces",
        "large.png": "40 rows and 24 columns",
        "larger.png": "41 rows and 24 columns",
    }.items():
        assert sum(line.startswith(f"neuralcpm: {name}: ") and words in line for line in named) == 1, named
    assert "5 problems" in last
    assert "--skip-bad" in last
    found, said = load(folder, "--skip-bad")
    assert found.arrays["source"].tolist() == [f"good{number}.png" for number in range(4)]
    assert "broken.tif" in said


def test_nothing_is_overwritten_by_a_failed_import(cli, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    bad_folder(folder)
    for name in ("data.npz", "data.png"):
        (tmp_path / name).write_text("precious")
    code, _, _ = cli("data", "import", folder, "-o", tmp_path / "data.npz")
    assert code == 2
    assert {(tmp_path / name).read_text() for name in ("data.npz", "data.png")} == {"precious"}


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.full((9, 9), 0.5, dtype=np.float32), "fractions"),
        (np.full((9, 9), np.nan, dtype=np.float32), "fractions"),
        (np.full((9, 9), -3, dtype=np.int16), "negative label"),
        (np.zeros((9, 9, 3), dtype=np.uint8), "colour picture"),
        (np.zeros((9, 9), dtype=np.complex64), "whole numbers"),
    ],
)
def test_tiffs_that_are_no_label_images(image: np.ndarray, words: str, cli, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", image)
    named, _ = problems(cli, tmp_path / "a.tif")
    assert words in named


def test_other_files_that_are_no_label_images(cli, tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    assert "colour picture" in problems(cli, tmp_path / "a.png")[0]
    (tmp_path / "b.png").write_bytes(b"")
    assert "not a readable image" in problems(cli, tmp_path / "b.png")[0]
    (tmp_path / "c.jpg").write_bytes(b"")
    assert "ends in nothing that is known" in problems(cli, tmp_path / "c.jpg")[0]
    whole = save_image(tmp_path / "d.tif", labels()).read_bytes()
    (tmp_path / "d.tif").write_bytes(whole[: len(whole) // 2])
    assert "not a readable image" in problems(cli, tmp_path / "d.tif")[0]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("id,type\n3,a\n", "has the columns id, type"),
        ("", "has the columns none"),
        ("label,type\nx,a\n", "has the label 'x'"),
        ("label,type\n3,\n", "the type ''"),
        ("label,type\n3,medium\n", "the type 'medium'"),
        ("label,type\n3,a\n3,b\n", "a second type"),
        ("label,type\n3,a\n7,b\n", "Cell 200 has no type in types.csv"),
    ],
)
def test_bad_tables_of_types(table: str, words: str, cli, tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", labels())
    (tmp_path / "types.csv").write_text(table)
    assert words in problems(cli, tmp_path, "--types", tmp_path / "types.csv")[0]


def test_bad_second_channels(cli, tmp_path: Path) -> None:
    save_image(tmp_path / "one.png", labels())
    assert "labels and types alternate" in problems(cli, tmp_path / "one.png", "--type-channel")[0]
    types = np.ones_like(labels())
    types[4, 4] = 2
    tifffile.imwrite(tmp_path / "a.tif", np.stack([labels(), types]))
    assert "Cell 3 has the types 1 and 2" in problems(cli, tmp_path / "a.tif", "--type-channel")[0]
    tifffile.imwrite(tmp_path / "a.tif", np.stack([labels(), 0 * types]))
    assert "Cell 3 has type 0" in problems(cli, tmp_path / "a.tif", "--type-channel")[0]


def test_bad_images_per_type(cli, tmp_path: Path) -> None:
    asked = ("--type", "R=_red", "--type", "B=_blue")
    save_image(tmp_path / "t_red.png", labels())
    assert "no image of type B" in problems(cli, tmp_path, *asked)[0]
    save_image(tmp_path / "t_blue.png", labels())
    assert "has a cell in two of its images" in problems(cli, tmp_path, *asked)[0]
    save_image(tmp_path / "t_blue.png", labels((30, 24)))
    assert "different sizes" in problems(cli, tmp_path, *asked)[0]
    save_image(tmp_path / "t_green.png", labels())
    assert "mark of none" in problems(cli, tmp_path, *asked)[0]
    shutil.copy(tmp_path / "t_red.png", tmp_path / "t_red.tif")
    assert any("is an image of the same cells" in line for line in problems(cli, tmp_path, *asked))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--crop", "10"), "no part of an image"),
        (("--crop", "0x5"), "no part of an image"),
        (("--crop", "500x500"), "do not hold the part"),
        (("--crop", "2x2+0+0"), "No cells are left"),
        (("--scale", "0"), "--scale is 0"),
        (("--type", "red"), "NAME=MARK"),
        (("--type", "R=a", "--type-channel"), "in several ways"),
        (("--type-names", "a,b,c"), "3 names were given for 1 types (cell)"),
        (("--types", "nowhere.csv"), "nowhere.csv cannot be read"),
        (("--border", "burn"), "burn"),
    ],
)
def test_bad_options(options: tuple[str, ...], words: str, cli, tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", labels())
    code, _, err = cli("data", "import", tmp_path / "a.png", *options, "-o", tmp_path / "out.npz")
    assert code == 2
    assert words in err
    assert not (tmp_path / "out.npz").exists()


def test_paths_that_are_not_there(refused, tmp_path: Path) -> None:
    assert "no file or folder" in refused("data", "import", tmp_path / "x.png", "-o", tmp_path / "o.npz")
    assert "no file that can be imported" in refused("data", "import", tmp_path, "-o", tmp_path / "o.npz")
    save_image(tmp_path / "a.png", labels())
    assert "does not end in .npz" in refused("data", "import", tmp_path / "a.png", "-o", tmp_path / "o.txt")


# -- CompuCell3D ------------------------------------------------------------------------------------------------

DML = """<CompuCell3DLatticeData Version="1.0">
   <Dimensions x="24" y="20" z="1"/><Lattice Type="{lattice}"/>
   <CellType TypeId="0" TypeName="Medium"/><CellType TypeId="2" TypeName="B"/><CellType TypeId="1" TypeName="A"/>
</CompuCell3DLatticeData>"""
CC3DML = """<CompuCell3D Version="4.8.0"><Potts><Dimensions x="24" y="20" z="1"/>{boundary}</Potts>
<Plugin Name="CellType"><CellType TypeId="0" TypeName="Medium"/><CellType TypeId="1" TypeName="B"/>
<CellType TypeId="2" TypeName="A"/></Plugin></CompuCell3D>"""
PERIODIC = "<Boundary_x>Periodic</Boundary_x><Boundary_y>Periodic</Boundary_y>"


def vtk(image: np.ndarray, types: dict[int, int], depth: int = 1) -> str:
    """Lattice data as CompuCell3D 4.8 writes them."""
    kinds = np.vectorize(lambda label: types.get(label, 0))(image)
    height, width = image.shape

    def block(values: np.ndarray) -> str:
        flat = [str(value) for value in values.ravel()]
        return "\n".join(" ".join(flat[start : start + 9]) + " " for start in range(0, len(flat), 9))

    count = image.size
    return (
        "# vtk DataFile Version 5.1\nvtk output\nASCII\nDATASET STRUCTURED_POINTS\n"
        f"DIMENSIONS {width} {height} {depth}\nSPACING 1 1 1\nORIGIN 0 0 0\nPOINT_DATA {count}\nFIELD FieldData 3\n"
        f"CellType 1 {count} unsigned_char\n{block(kinds)}\nMETADATA\nINFORMATION 0\n\n"
        f"CellId 1 {count} long\n{block(image)}\nClusterId 1 {count} long\n{block(image)}\n"
    )


def pif(image: np.ndarray, types: dict[int, str], clusters: bool = False) -> str:
    lines = ["Include Clusters"] if clusters else []
    for y, x in np.argwhere(image > 0):
        label = image[y, x]
        lines.append(f"{label if clusters else ''} {label} {types[label]} {x} {x} {y} {y} 0 0")
    return "\n".join(lines) + "\n"


def test_vtk_with_the_files_beside_it(load, tmp_path: Path) -> None:
    folder = tmp_path / "LatticeData"
    folder.mkdir()
    (tmp_path / "Simulation").mkdir()
    for step, shift in ((9, 0), (10, 1)):
        (folder / f"Step_{step}.vtk").write_text(vtk(labels(shift=shift), {3: 2, 7: 1, 200: 2}))
    found, _ = load(folder)
    assert found.type_names == ("medium", "type1", "type2")
    (folder / "StepLDF.dml").write_text(DML.format(lattice="Square"))
    (tmp_path / "Simulation" / "Model.xml").write_text(CC3DML.format(boundary=PERIODIC))
    found, _ = load(folder)
    assert found.type_names == ("medium", "A", "B")
    assert found.boundary == "periodic"
    assert found.types.tolist() == [[0, 2, 1, 2]] * 2
    assert found.arrays["source"].tolist() == ["Step_9.vtk", "Step_10.vtk"]
    assert (found.ids[1] == np.searchsorted([0, 3, 7, 200], labels(shift=1))).all()
    found, _ = load(folder, "--boundary", "free")
    assert found.boundary == "free"


def test_pif_with_and_without_clusters(load, cli, tmp_path: Path) -> None:
    types = {3: "A", 7: "B", 200: "A"}
    path = tmp_path / "init.piff"
    for clusters in (False, True):
        path.write_text(pif(labels(), types, clusters))
        found, _ = load(path, "--lattice", "20x24")
        assert found.types.tolist() == [[0, 1, 2, 1]]
        assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], labels())).all()
    assert "--lattice ROWSxCOLUMNS" in problems(cli, path)[0]
    (tmp_path / "Model.xml").write_text(CC3DML.format(boundary=""))
    found, _ = load(path)
    assert found.type_names == ("medium", "B", "A")
    assert found.boundary == "free"
    assert found.ids.shape == (1, 20, 24)


def test_pif_boxes_overlap_as_in_cc3d(load, tmp_path: Path) -> None:
    (tmp_path / "a.pif").write_text("0 A 2 9 2 5 0 0\n1 B 6 9 2 3 0 0\n2 Medium 2 2 2 2 0 0\n")
    found, _ = load(tmp_path / "a.pif", "--lattice", "10x12")
    expected = np.zeros((10, 12), dtype=int)
    expected[2:6, 2:10] = 1
    expected[2:4, 6:10] = 2
    expected[2, 2] = 0
    assert (found.ids[0] == expected).all()


def test_loose_pieces_in_a_simulation_are_noted_not_refused(load, tmp_path: Path) -> None:
    image = labels()
    image[18, 22] = 3
    (tmp_path / "a.vtk").write_text(vtk(image, {3: 1, 7: 1, 200: 1}))
    found, said = load(tmp_path / "a.vtk")
    assert len(found) == 1
    assert "1 cells in 1 snapshots are in pieces" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "no legacy VTK file"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("ASCII", "BINARY"), "binary"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}, depth=4), "3D"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("DIMENSIONS", "SIZES"), "no DIMENSIONS"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("24 20 1", "99999999 99999999 1"), "sites are possible"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("CellId", "Other"), "no array CellId"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1})[:1000], "no array CellId"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1})[:1400], "the file is cut off"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace(" 200 ", " 2.5 "), "whole numbers"),
        (vtk(np.zeros((20, 24), dtype=int), {}), "no cells"),
    ],
)
def test_bad_vtk(text: str, words: str, cli, tmp_path: Path) -> None:
    (tmp_path / "a.vtk").write_text(text)
    assert words in problems(cli, tmp_path / "a.vtk")[0]


def test_bad_files_beside_a_vtk(cli, tmp_path: Path) -> None:
    (tmp_path / "a.vtk").write_text(vtk(labels(), {3: 1, 7: 5, 200: 1}))
    summary = tmp_path / "StepLDF.dml"
    summary.write_text(DML.format(lattice="Square"))
    assert "Type 5 is not among" in problems(cli, tmp_path / "a.vtk")[0]
    summary.write_text(DML.format(lattice="Hexagonal"))
    assert "hexagonal" in problems(cli, tmp_path / "a.vtk")[0]
    summary.write_text(DML.format(lattice="Square").replace("TypeId", "Id"))
    assert "lacks its TypeId" in problems(cli, tmp_path / "a.vtk")[0]
    summary.unlink()
    (tmp_path / "m.xml").write_text(CC3DML.format(boundary="<Boundary_x>Periodic</Boundary_x>"))
    (tmp_path / "a.vtk").write_text(vtk(labels(), {3: 1, 7: 2, 200: 1}))
    assert "periodic along one axis only" in problems(cli, tmp_path / "a.vtk")[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 A 2 3\n", "Line 1 is '1 A 2 3'"),
        ("\n1 A 2 3 2 x 0 0\n", "Line 2"),
        ("1 A 2 30 2 3 0 0\n", "covers x 2 to 30"),
        ("1 A 3 2 2 3 0 0\n", "covers x 3 to 2"),
        ("1 A 2 3 2 3 0 4\n", "3D"),
        ("1 A 2 3 2 3 0 0\n1 B 4 4 2 3 0 0\n", "gives cell 2 the type B, but it had A"),
        ("", "no cells"),
    ],
)
def test_bad_pif(text: str, words: str, cli, tmp_path: Path) -> None:
    (tmp_path / "a.piff").write_text(text)
    assert words in problems(cli, tmp_path / "a.piff", "--lattice", "20x24")[0]


# -- Morpheus ---------------------------------------------------------------------------------------------------


def morpheus_model(cells: str, boundary: str = "periodic", lattice: str = "square", size: str = "24, 20, 0") -> str:
    return f"""<MorpheusModel version="4">
  <Space><Lattice class="{lattice}"><Size symbol="size" value="{size}"/><BoundaryConditions>
    <Condition boundary="x" type="{boundary}"/><Condition boundary="y" type="{boundary}"/></BoundaryConditions>
  </Lattice></Space>
  <CellTypes><CellType class="biological" name="B"/><CellType class="medium" name="medium"/>
    <CellType class="biological" name="A"/></CellTypes>
  <CellPopulations>{cells}<Population type="medium" size="1"><Cell id="0"/></Population></CellPopulations>
</MorpheusModel>"""


def population(image: np.ndarray, types: dict[int, str], comma: str = ",") -> str:
    text = ""
    for label, kind in types.items():
        nodes = ";".join(f"{x}{comma} {y}{comma} 0" for y, x in np.argwhere(image == label))
        text += f'<Population type="{kind}" size="1"><Cell id="{label}"><Nodes>{nodes}</Nodes></Cell></Population>'
    return text


TYPES = {3: "A", 7: "B", 200: "A"}


@pytest.mark.parametrize("comma", [",", ""])
def test_morpheus_models_and_checkpoints(comma: str, load, tmp_path: Path) -> None:
    text = morpheus_model(population(labels(), TYPES, comma))
    (tmp_path / "a.xml").write_text(text)
    (tmp_path / "b.xml.gz").write_bytes(gzip.compress(text.encode()))
    found, _ = load(tmp_path)
    assert found.type_names == ("medium", "B", "A")
    assert found.boundary == "periodic"
    assert found.types.tolist() == [[0, 2, 1, 2]] * 2
    assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], labels())).all()
    assert (found.ids[0] == found.ids[1]).all()


def test_morpheus_checkpoint_of_a_model_without_a_medium(load, tmp_path: Path) -> None:
    text = morpheus_model(population(labels(), TYPES)).replace('<CellType class="medium" name="medium"/>', "")
    (tmp_path / "a.xml").write_text(text.replace('type="medium"', 'type="Medium"'))
    found, _ = load(tmp_path / "a.xml")
    assert found.type_names == ("medium", "B", "A")


def test_morpheus_nodes_over_a_periodic_border(load, tmp_path: Path) -> None:
    cell = (
        '<Population type="A" size="1"><Cell id="9"><Nodes>23 19 0;24 19 0;24 20 0;-1 19 0</Nodes></Cell></Population>'
    )
    (tmp_path / "a.xml").write_text(morpheus_model(cell))
    found, _ = load(tmp_path / "a.xml")
    assert {tuple(site) for site in np.argwhere(found.ids[0])} == {(19, 23), (19, 0), (0, 0)}


def write_morpheus_tiff(path: Path, channels: list[str]) -> None:
    """Pages as TiffPlotter writes them: one per channel, int16, medium of Morpheus' type 1."""
    with tifffile.TiffWriter(path) as writer:
        for shift in (0, 1):
            image = labels(shift=shift)
            types = np.select([image == 0, image == 7], [1, 0], 2)
            for channel in channels:
                values = image if channel == "id" else types
                writer.write(values.astype(np.int16), software="morpheus", metadata=None)


@pytest.mark.parametrize("order", [["id", "type"], ["type", "id"]])
def test_morpheus_tiff(order: list[str], load, tmp_path: Path) -> None:
    path = tmp_path / ("_".join(f"cell.{channel}" for channel in order) + ".tif")
    write_morpheus_tiff(path, order)
    found, _ = load(path)
    assert found.type_names == ("medium", "type0", "type2")
    assert found.types.tolist() == [[0, 2, 1, 2]] * 2
    (tmp_path / "model.xml").write_text(morpheus_model("", boundary="noflux"))
    found, _ = load(path)
    assert found.type_names == ("medium", "B", "A")
    assert found.boundary == "free"
    assert found.types.tolist() == [[0, 2, 1, 2]] * 2
    assert (found.ids[1] == np.searchsorted([0, 3, 7, 200], labels(shift=1))).all()


def test_morpheus_tiff_of_ids_only(cli, load, tmp_path: Path) -> None:
    write_morpheus_tiff(tmp_path / "cell.id.tif", ["id"])
    found, _ = load(tmp_path / "cell.id.tif")
    assert found.type_names == ("medium", "cell")
    write_morpheus_tiff(tmp_path / "cell.id_cell.type.tif", ["id", "type"])
    assert any("does not say the types of its cells" in line for line in problems(cli, tmp_path))


def test_bad_morpheus_tiff(cli, tmp_path: Path) -> None:
    write_morpheus_tiff(tmp_path / "renamed.tif", ["id", "type"])
    assert "does not begin with cell.id" in problems(cli, tmp_path / "renamed.tif")[0]
    with tifffile.TiffWriter(tmp_path / "cell.id_cell.type.tif") as writer:
        writer.write(labels().astype(np.int16), software="morpheus", metadata=None)
    assert "1 pages for 2 channels" in problems(cli, tmp_path / "cell.id_cell.type.tif")[0]


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><MorpheusModel>&b;</MorpheusModel>'
THEFT = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><MorpheusModel>&a;</MorpheusModel>'
MADE = '<Population type="A" size="3"><InitRectangle/></Population>'
STRANGE = '<Population type="Z"/>'
NODES = '<Population type="A"><Cell id="{id}"><Nodes>{nodes}</Nodes></Cell></Population>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<a>", "not well-formed"),
        ("", "not well-formed"),
        ("<model/>", "The XML is a model"),
        (BOMB, "document type"),
        (THEFT, "document type"),
        (morpheus_model("", lattice="hexagonal"), "hexagonal"),
        (morpheus_model("", size="24, 20, 9"), "3D"),
        (morpheus_model("", size="a, b, 0"), "'x, y, 0' in numbers"),
        (morpheus_model("", size="99999999, 99999999, 0"), "sites are possible"),
        (morpheus_model(""), "no cells"),
        (morpheus_model(MADE), "makes cells when it starts (InitRectangle)"),
        (morpheus_model(STRANGE), "the type 'Z'"),
        (morpheus_model(NODES.format(id="0", nodes="1 1 0")), "ids are positive"),
        (morpheus_model(NODES.format(id="1", nodes="1 b 0")), "not of the form"),
        (morpheus_model(NODES.format(id="1", nodes="1 1 0") + NODES.format(id="2", nodes="1 1 0")), "share a node"),
        (morpheus_model(NODES.format(id="1", nodes="30 1 0"), boundary="noflux"), "outside the lattice"),
    ],
)
def test_bad_morpheus_xml(text: str, words: str, cli, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(text)
    assert words in problems(cli, tmp_path / "a.xml")[0]


def test_bad_gzip(cli, tmp_path: Path) -> None:
    (tmp_path / "a.xml.gz").write_bytes(b"no gzip")
    assert "cannot be read" in problems(cli, tmp_path / "a.xml.gz")[0]


def test_files_of_two_boundaries(cli, load, tmp_path: Path) -> None:
    for name, boundary in (("a.xml", "periodic"), ("b.xml", "noflux")):
        (tmp_path / name).write_text(morpheus_model(population(labels(), TYPES), boundary))
    assert "pass --boundary" in problems(cli, tmp_path)[0]
    found, _ = load(tmp_path, "--boundary", "periodic")
    assert len(found) == 2


# -- info -------------------------------------------------------------------------------------------------------


def test_info_says_what_a_data_set_holds(cli, tmp_path: Path) -> None:
    states = [CellState.from_labels(labels(shift=shift), {3: 1, 7: 2, 200: 2}) for shift in (0, 1)]
    Snapshots.from_states(states, type_names=("medium", "A", "B"), provenance={"source": "test"}).save(
        tmp_path / "d.npz"
    )
    code, out, _ = cli("data", "info", tmp_path / "d.npz", "--picture", tmp_path / "p.png")
    assert code == 0
    assert "A" in out
    assert "20×24" in out
    assert Image.open(tmp_path / "p.png").width > 200
    code, out, _ = cli("data", "info", tmp_path / "d.npz", "--json")
    facts = json.loads(out)
    assert facts["types"] == ["medium", "A", "B"]
    assert facts["states"] == facts["measured_states"] == 2
    assert facts["volume_range"] == [25, 36]
    assert facts["clusters"] == [0.0, 1.0, 2.0]


def test_info_of_a_data_set_without_cells_or_names(cli, tmp_path: Path) -> None:
    Snapshots.from_states([CellState(np.zeros((5, 5), dtype=int), [0])]).save(tmp_path / "d.npz")
    code, out, err = cli("data", "info", tmp_path / "d.npz", "--picture", tmp_path / "p.png")
    assert code == 0, err
    assert "5×5" in out


def test_info_of_no_data_set(refused, tmp_path: Path) -> None:
    assert "no file" in refused("data", "info", tmp_path / "none.npz")
    (tmp_path / "d.npz").write_text("no")
    assert "not a readable .npz" in refused("data", "info", tmp_path / "d.npz")


def test_without_tifffile_the_command_to_get_it(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    save_image(tmp_path / "a.tif", labels())
    monkeypatch.setitem(sys.modules, "tifffile", None)
    assert "pip install 'neuralcpm-bridge[images]'" in problems(cli, tmp_path / "a.tif")[0]
