"""What can be wrong with label images, tables of types and options."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from .making import Image, labels, problems, save_image, tifffile


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
        (np.arange(243, dtype=np.uint8).reshape(9, 9, 3), "colour picture"),
        (np.zeros((9, 9), dtype=np.complex64), "whole numbers"),
    ],
)
def test_tiffs_that_are_no_label_images(image: np.ndarray, words: str, cli, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", image)
    named, _ = problems(cli, tmp_path / "a.tif")
    assert words in named


def test_other_files_that_are_no_label_images(cli, tmp_path: Path) -> None:
    Image.new("RGB", (9, 9), "red").save(tmp_path / "a.png")
    assert "colour picture" in problems(cli, tmp_path / "a.png")[0]
    (tmp_path / "b.png").write_bytes(b"")
    assert "not a readable image" in problems(cli, tmp_path / "b.png")[0]
    (tmp_path / "c.jpg").write_bytes(b"")
    assert "ends in nothing that is known" in problems(cli, tmp_path / "c.jpg")[0]
    whole = save_image(tmp_path / "d.tif", labels()).read_bytes()
    (tmp_path / "d.tif").write_bytes(whole[: len(whole) // 2])
    assert "its image is said to have more" in problems(cli, tmp_path / "d.tif")[0]


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
        ("label,type,age\n3,a,1\n3,a,2\n", "gives label 3 a second row"),
        ("label,type,age\n3,a,1\n7,a,\n", "Line 3 of {table} has nothing in the column 'age'"),
        ("label,type,age\n3,a,1\n7,a\n", "Line 3 of {table} has nothing in the column 'age'"),
        ("label,type,age\n3,a,old\n", "Line 2 of {table} has 'old' in the column 'age'"),
        ("label,type,age\n3,a,nan\n", "Line 2 of {table} has 'nan' in the column 'age'"),
        ("label,type,age,age\n3,a,1,2\n", "a column 'age'"),
        ("label,type,my age,my-age\n3,a,1,2\n", "a column 'my-age'"),
        ("label,type,µ\n3,a,1\n", "a column 'µ'"),
    ],
)
def test_bad_tables_of_types(table: str, words: str, cli, tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", labels())
    (tmp_path / "types.csv").write_text(table)
    said = problems(cli, tmp_path, "--types", tmp_path / "types.csv")[0]
    assert words.format(table=tmp_path / "types.csv") in said


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
        (("--scale", "inf"), "--scale is inf"),
        (("--scale", "half"), "--scale is half, but a factor above 0 and up to 100 is needed, or auto"),
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


def test_without_tifffile_the_command_to_get_it(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    save_image(tmp_path / "a.tif", labels())
    monkeypatch.setitem(sys.modules, "tifffile", None)
    assert "pip install 'neuralcpm-bridge[images]'" in problems(cli, tmp_path / "a.tif")[0]
