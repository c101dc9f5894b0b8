"""Good files of every kind, small enough that a thousand of them can be read in a minute."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from neuralcpm_bridge.app.cli import run
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

MODEL = "pretrained:elongated-cells"
FORMAT1 = Path(__file__).parent.parent / "data" / "format1"


def make_seeds(folder: Path) -> None:
    """Fill a folder: one subfolder for each target, and `with/` for what the verbs need beside."""
    beside = folder / "with"
    beside.mkdir(parents=True)
    _data_sets(folder, beside)
    _models(folder)
    _images(folder)
    _cc3d(folder, beside)
    _morpheus(folder, beside)
    _training(folder)


def labels() -> np.ndarray:
    image = np.zeros((20, 24), dtype=np.uint8)
    image[3:8, 3:9], image[3:8, 9:14], image[10:16, 6:12] = 3, 7, 200
    return image


def outlines() -> np.ndarray:
    """Four cells inside bright walls."""
    image = np.zeros((20, 24), dtype=np.uint8)
    for line in (np.s_[3, 3:20], np.s_[9, 3:20], np.s_[15, 3:20], np.s_[3:16, 3], np.s_[3:16, 11], np.s_[3:16, 19]):
        image[line] = 255
    return image


TYPE_OF = np.zeros(256, dtype=np.uint8)
TYPE_OF[[3, 7, 200]] = 1, 2, 1


def _folder(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    return folder / name


def _verb(*words: object) -> None:
    assert run([str(word) for word in words]) == 0, words


def _data_sets(folder: Path, beside: Path) -> None:
    artifact = load_artifact(MODEL)
    states = [initial_state(artifact, "blob", seed=seed, cells=4, lattice=(30, 28)) for seed in range(3)]
    plain = Snapshots.from_states(states, type_names=artifact.metadata.types, provenance={"source": "seed", "n": [1]})
    plain.save(beside / "states.npz")
    into = _folder(folder, "data")
    plain.save(into / "plain.npz")
    np.savez_compressed(into / "channels.npz", states=np.stack([state.to_channels() for state in states]))
    cube = np.zeros((6, 7, 8), dtype=np.int32)
    cube[1:3, 2:5, 2:6], cube[3:5, 2:5, 2:6] = 1, 2
    for name, ids in {"cubic": cube, "hexagonal": cube[2]}.items():
        lattice = Lattice.of(ids.shape, name, "free")
        state = CellState(ids, np.array([0, 1, 2]), lattice, {"age": np.array([0.0, 1.0, 2.5])})
        arrays = {"mcs": np.array([5])}
        Snapshots.from_states([state], type_names=("medium", "A", "B"), arrays=arrays).save(into / f"{name}.npz")


def _models(folder: Path) -> None:
    into = _folder(folder, "model")
    for name in ("elongated-cells", "cell-sorting"):
        (into / f"{name}.onnx").write_bytes(load_artifact(f"pretrained:{name}").path.read_bytes())
    for name in ("cnn", "external", "local_closure"):  # of format 1; the first is served by ONNX Runtime
        (into / f"{name}.onnx").write_bytes((FORMAT1 / f"{name}.onnx").read_bytes())


def _images(folder: Path) -> None:
    import tifffile
    from PIL import Image

    image = labels()
    into = _folder(folder, "png")
    Image.fromarray(image).save(into / "grey.png")
    Image.fromarray(image.astype(np.uint16)).save(into / "deep.png")
    Image.fromarray(image).convert("P").save(into / "palette.png")
    Image.fromarray(outlines()).save(into / "outlines.png")
    Image.fromarray(outlines()).convert("RGB").save(into / "colours.png")
    into = _folder(folder, "tiff")
    stack = np.stack([image, TYPE_OF[image]])
    tifffile.imwrite(into / "plain.tif", image)
    tifffile.imwrite(into / "outlines.tif", np.stack([outlines()] * 3, axis=-1), photometric="rgb")
    tifffile.imwrite(into / "tagged.tif", image, resolution=(20_000, 10_000), resolutionunit="centimeter")
    tifffile.imwrite(into / "zlib.tif", image.astype(np.float32), compression="zlib")
    voxels = {"axes": "ZYX", "spacing": 2.0, "unit": "um"}
    tifffile.imwrite(into / "imagej.tif", stack, imagej=True, resolution=(2, 2), metadata=voxels)
    sizes = {"axes": "ZYX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 1.0}
    tifffile.imwrite(into / "ome.ome.tif", stack, ome=True, metadata=sizes)
    Image.fromarray(image).save(into / "lzw.tif", compression="tiff_lzw")
    types = "label,type,file,age\n3,A,,1.5\n7,B,,2\n200,A,image.png,3e2\n"
    into = _folder(folder, "types")
    (into / "types.csv").write_text(types)
    Image.fromarray(image).save(into / "image.png")
    (_folder(folder, "properties") / "properties.csv").write_text("id,age,marker\n1,2.5,0\n2,3e2,1\n")


def _cc3d(folder: Path, beside: Path) -> None:
    from ..cc3d.test_projects import make_project

    into = _folder(folder, "vtk")
    image = labels().astype(int)
    fields = [
        (name, " ".join(map(str, row.ravel()))) for name, row in (("CellId", image), ("CellType", TYPE_OF[image]))
    ]
    body = "\n".join(f"{name} 1 {image.size} int\n{values}" for name, values in fields)
    rows, columns = image.shape
    (into / "Step_000.vtk").write_text(
        "# vtk DataFile Version 3.0\nlattice\nASCII\nDATASET STRUCTURED_POINTS\n"
        f"DIMENSIONS {columns} {rows} 1\nSPACING 1 1 1\nORIGIN 0 0 0\nPOINT_DATA {image.size}\n"
        f"FIELD FieldData 2\n{body}\n"
    )
    (into / "lattice.dml").write_text(
        '<CompuCell3DLatticeData><Lattice Type="Square"/>'
        + "".join(f'<CellType TypeId="{n}" TypeName="{t}"/>' for n, t in enumerate(("Medium", "A", "B")))
        + "</CompuCell3DLatticeData>"
    )
    make_project(folder / "cc3d", "<PythonScript>Simulation/Sort.py</PythonScript>")
    project = folder / "written"
    _verb("cc3d", "new", MODEL, "--state", beside / "states.npz", "-o", project)
    into = _folder(folder, "pif")
    for file in (*project.glob("Simulation/*.piff"), *project.glob("Simulation/*.xml")):
        (into / file.name).write_bytes(file.read_bytes())


def _morpheus(folder: Path, beside: Path) -> None:
    import tifffile

    into = _folder(folder, "morpheus")
    _verb("morpheus", "new", MODEL, "--state", beside / "states.npz", "-o", into / "model.xml")
    checkpoint = (into / "model.xml").read_bytes()
    into = _folder(folder, "checkpoint")
    (into / "model.xml.gz").write_bytes(gzip.compress(checkpoint))
    into = _folder(folder, "plotted")
    (into / "model.xml").write_bytes(checkpoint)
    with tifffile.TiffWriter(into / "cell.id_cell.type.tif") as writer:
        for values in (labels(), np.where(labels(), TYPE_OF[labels()], 0)):
            writer.write(values.astype(np.int16), software="morpheus", metadata=None)


def _training(folder: Path) -> None:
    from training.config import EXAMPLE
    from training.trainer import Trainer

    from ..training.tiny import tiny_config, tiny_data

    (_folder(folder, "toml") / "config.toml").write_text(EXAMPLE)
    steps = {"steps": 2, "batch": 2, "refresh": 2}
    config = tiny_config(model={"preset": "graph1-closure"}, optimizer=steps, run={"checkpoint_every": 1})
    Trainer(config, tiny_data(4), folder / "run").run()
    (folder / "run" / "results.json").write_text('{"name": "seed", "recovered": {"J": [1.0, 2.0]}, "n": 3}')
    reference = FORMAT1.parent / "reference" / "exp1_nch.eqx"
    (_folder(folder, "reference") / "weights.eqx").write_bytes(reference.read_bytes())
