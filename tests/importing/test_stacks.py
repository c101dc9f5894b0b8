"""3D label stacks as the programs that segment tissue write them: axes, voxels, crop, scale, border, types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.lattice import Lattice

from .making import labels, problems, save_image, tifffile

SOLID = np.stack([0 * labels(), labels(), labels(), labels(shift=1), 0 * labels()]).astype(np.uint16)
IDS = np.searchsorted([0, 3, 7, 200], SOLID)
CUBES = {"spacing": 0.5, "unit": "um"}
EVEN = (2, 2)  # pixels per unit: 0.5 each


def as_stardist(path: Path, stack: np.ndarray) -> None:
    """csbdeep's save_tiff_imagej_compatible: ImageJ's axes, all of them."""
    tifffile.imwrite(path, stack[None, :, None, :, :, None], imagej=True, resolution=EVEN, metadata=CUBES)


def as_plantseg(path: Path, stack: np.ndarray) -> None:
    metadata = {"axes": "ZYX", **CUBES}
    tifffile.imwrite(path, stack, imagej=True, resolution=EVEN, metadata=metadata, compression="zlib")


def as_ome(path: Path, stack: np.ndarray) -> None:
    sizes = {f"PhysicalSize{axis}": 0.5 for axis in "XYZ"}
    tifffile.imwrite(path, stack, ome=True, photometric="minisblack", metadata={"axes": "ZYX", **sizes})


def as_tifffile_with_axes(path: Path, stack: np.ndarray) -> None:
    tifffile.imwrite(path, stack, photometric="minisblack", metadata={"axes": "ZYX"})


@pytest.mark.parametrize("write", [as_stardist, as_plantseg, as_ome, as_tifffile_with_axes])
def test_stacks_that_name_their_depth(write: object, load, tmp_path: Path) -> None:
    path = tmp_path / "a.ome.tif" if write is as_ome else tmp_path / "a.tif"
    write(path, SOLID)  # type: ignore[operator]
    found, said = load(path)
    assert found.lattice == Lattice.of(SOLID.shape, "cubic", "free")
    assert (found.ids[0] == IDS).all()
    assert found.types.tolist() == [[0, 1, 1, 1]]
    assert "resampled" not in said
    assert ("taken for cubes" in said) == (write is as_tifffile_with_axes)


@pytest.mark.parametrize("options", [{"compression": "zlib"}, {"compression": "zlib", "bigtiff": True}])
def test_stacks_as_cellpose_and_napari_write_them_need_a_word(options: dict, cli, load, tmp_path: Path) -> None:
    path = tmp_path / "x_cp_masks.tif"
    tifffile.imwrite(path, SOLID, photometric="minisblack", **options)
    assert "5 planes and does not say whether they are depth or time" in problems(cli, path)[0]
    found, said = load(path, "--stack", "volume")
    assert (found.ids[0] == IDS).all()
    assert "taken for cubes" in said
    found, said = load(path, "--stack", "volume", "--voxel-size", "1,1,1")
    assert "cubes" not in said


def test_many_volumes_in_one_file(load, tmp_path: Path) -> None:
    both = np.stack([SOLID, SOLID[:, ::-1]])
    tifffile.imwrite(tmp_path / "a.tif", both, imagej=True, metadata={"axes": "TZYX"})
    found, _ = load(tmp_path / "a.tif")
    assert found.ids.shape == (2, *SOLID.shape)
    assert (found.ids[1] > 0).sum() == (SOLID > 0).sum()
    found, _ = load(tmp_path / "a.tif", "--stack", "frames", "--skip-bad")
    assert found.ids.shape == (6, 20, 24), "planes without cells are no snapshots"


ANISOTROPIC = {"spacing": 1.5, "unit": "micron"}


def test_voxels_that_are_no_cubes_are_resampled_and_said_so(load, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, SOLID, imagej=True, resolution=EVEN, metadata={"axes": "ZYX", **ANISOTROPIC})
    found, said = load(path)
    assert (found.ids[0] == IDS.repeat(3, axis=0)).all()
    assert (
        "Voxels of 1.5 × 0.5 × 0.5 micron were resampled to cubes of 0.5 micron: 5 × 20 × 24 sites became 15 × 20 × 24."
        in said
    )
    found, said = load(path, "--scale", 0.5)
    assert found.lattice.shape == (8, 10, 12)
    assert "cubes of 1 micron" in said
    found, said = load(path, "--voxel-size", "0.5,0.5,0.5")
    assert (found.ids[0] == IDS).all()
    found, said = load(path, "--voxel-size", "2,1,1")
    assert (found.ids[0] == IDS.repeat(2, axis=0)).all()


def test_ome_sizes_in_different_units(load, tmp_path: Path) -> None:
    sizes = {"PhysicalSizeX": 500.0, "PhysicalSizeXUnit": "nm", "PhysicalSizeY": 0.5, "PhysicalSizeZ": 1.0}
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, SOLID, ome=True, photometric="minisblack", metadata={"axes": "ZYX", **sizes})
    found, said = load(path)
    assert (found.ids[0] == IDS.repeat(2, axis=0)).all()
    assert "Voxels of 1 × 0.5 × 0.5 µm" in said


def test_pixels_of_plane_images_that_are_no_squares(load, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, labels().astype(np.uint16), imagej=True, resolution=(2, 1))
    found, said = load(path)
    assert found.lattice.shape == (40, 24)
    assert "Pixels of 1 × 0.5 were resampled to squares of 0.5" in said


@pytest.mark.parametrize(
    ("per_unit", "unit", "said_of_it"),
    [
        ((20_000, 20_000), "centimeter", "A site is 0.5 µm wide."),
        ((50_800, 50_800), "inch", "A site is 0.5 µm wide."),
        ((20_000, 10_000), "centimeter", "Pixels of 1 × 0.5 µm were resampled to squares of 0.5 µm"),
        ((2, 1), "none", "Pixels of 1 × 0.5 were resampled to squares of 0.5:"),
        ((300, 300), "inch", ""),
        ((1, 1), "none", ""),
    ],
)
def test_sizes_from_the_tags_of_any_tiff(
    per_unit: tuple[int, int], unit: str, said_of_it: str, load, tmp_path: Path
) -> None:
    """Pixels per inch or centimetre; dots on paper are no size of cells."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, labels().astype(np.uint16), resolution=per_unit, resolutionunit=unit)
    found, said = load(path)
    assert said_of_it in said
    assert ("A site is" in said) == ("µm" in said_of_it)
    assert found.provenance.get("site_size") == (0.5 if "µm" in said_of_it else None)
    assert found.lattice.shape == (20 * max(per_unit) // min(per_unit), 24)


def test_the_size_of_a_site_is_kept(load, cli, tmp_path: Path) -> None:
    as_ome(tmp_path / "a.ome.tif", SOLID)
    found, said = load(tmp_path / "a.ome.tif", "--scale", 0.8)
    assert (found.provenance["site_size"], found.provenance["length_unit"]) == (0.625, "µm")
    assert "A site is 0.625 µm wide." in said
    tifffile.imwrite(tmp_path / "a.tif", SOLID, imagej=True, resolution=EVEN, metadata={"axes": "ZYX", "unit": "pixel"})
    found, said = load(tmp_path / "a.tif")
    assert "A site is" not in said
    tifffile.imwrite(tmp_path / "b.tif", labels().astype(np.uint16), imagej=True, resolution=(1000, 1))
    assert "which no microscope makes: pass --voxel-size" in problems(cli, tmp_path / "b.tif")[0]
    assert load(tmp_path / "b.tif", "--voxel-size", "1,1")[0].lattice.shape == (20, 24)


def test_large_cells_are_sooner_too_large_in_3d(load, tmp_path: Path) -> None:
    """A cell 23 sites across has 430 sites in a plane, and 6,400 in a volume."""
    cells = np.kron(SOLID, np.ones((4, 4, 4), dtype=np.uint16))
    tifffile.imwrite(tmp_path / "a.tif", cells, imagej=True, metadata={"axes": "ZYX"})
    _, said = load(tmp_path / "a.tif")
    assert "Cells are 22 sites across, which a model moves slowly: --scale 0.54" in said
    _, said = load(tmp_path / "a.tif", "--scale", "auto")
    assert "--scale auto is 0.54: cells are 12 sites across." in said


def test_crop_and_border_in_3d(load, cli, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    as_plantseg(path, SOLID)
    found, _ = load(path, "--crop", "3x12x24+1+0+0")
    assert (found.ids[0] > 0).sum() == (SOLID[1:4, :12] > 0).sum()
    found, _ = load(path, "--crop", "3x20x24")
    assert (found.ids[0] == IDS[1:4]).all()
    found, said = load(path, "--crop", "5x20x12", "--border", "drop")
    assert (found.ids[0] > 0).sum() == (SOLID[:, :, 6:18] == 7).sum(), "the others are cut by a side"
    assert "Cells taken out at the border: 2." in said
    assert "No cells are left" in problems(cli, path, "--crop", "3x20x24+1+0+0", "--border", "drop")[0]
    found, _ = load(path, "--border", "crop")
    assert found.lattice.shape == (5, 20, 21)
    assert "but --crop gives 2 sizes: give 3" in problems(cli, path, "--crop", "10x10")[0]
    assert "do not hold the part" in problems(cli, path, "--crop", "6x10x10")[0]


def test_types_of_volumes(load, tmp_path: Path) -> None:
    types = np.select([SOLID == 3, SOLID == 7, SOLID == 200], [2, 1, 2]).astype(np.uint16)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.stack([SOLID, types], axis=1), imagej=True, metadata={"axes": "ZCYX"})
    found, _ = load(path, "--type-channel")
    assert found.types.tolist() == [[0, 2, 1, 2]]
    (tmp_path / "types.csv").write_text("label,type\n3,a\n7,b\n200,a\n")
    as_plantseg(path, SOLID)
    found, _ = load(path, "--types", tmp_path / "types.csv")
    assert found.types.tolist() == [[0, 1, 2, 1]]
    as_plantseg(tmp_path / "b_red.tif", np.where(SOLID == 3, SOLID, 0))
    as_plantseg(tmp_path / "b_blue.tif", np.where(SOLID != 3, SOLID, 0))
    found, _ = load(tmp_path / "b_red.tif", tmp_path / "b_blue.tif", "--type", "R=_red", "--type", "B=_blue")
    assert found.types.tolist() == [[0, 1, 2, 2]]
    assert (found[0].ids > 0).sum() == (SOLID > 0).sum()


def test_stacks_that_cannot_be_understood(cli, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.stack([SOLID, SOLID]), photometric="minisblack")
    assert "does not name them all" in problems(cli, path)[0]
    assert "does not name them all" in problems(cli, path, "--stack", "volume")[0]
    as_plantseg(path, SOLID)
    assert "no second channel beside its depth" in problems(cli, path, "--type-channel")[0]
    torn = SOLID.copy()
    torn[2, 3:8, 3:9] = 0
    as_plantseg(path, torn)
    assert "Cell 3 is in 2 pieces" in problems(cli, path)[0]
    as_plantseg(path, SOLID)
    assert "--voxel-size gives 2 numbers" in problems(cli, path, "--voxel-size", "1,1")[0]
    for wrong in ("0,1,1", "a,b,c", "1", "nan,1,1"):
        assert "write Z,Y,X" in problems(cli, path, "--voxel-size", wrong)[0]


def test_sizes_are_checked_before_memory_is_asked_for(cli, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    save_image(path, labels())
    with tifffile.TiffFile(path, mode="r+") as tiff:
        for tag in ("ImageWidth", "ImageLength"):
            tiff.pages[0].tags[tag].overwrite(60000)
    assert "cannot hold as many" in problems(cli, path)[0]
    as_plantseg(path, SOLID)
    assert "sites are possible" in problems(cli, path, "--scale", 100)[0]
