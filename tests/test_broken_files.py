"""Files that are broken on purpose: each ends in one sentence, without memory, time or words of its own."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.snapshots import load_snapshots

IDS = np.zeros((1, 4, 5), dtype=np.int32)


def test_what_a_library_raises_is_a_sentence_and_ours_passes() -> None:
    for raised, says in (
        (KeyError("x"), r"a.b is not a thing \(KeyError: 'x'\): mend it\."),
        (ValueError("first line\nsecond"), r"a.b is not a thing \(first line\): mend it\."),
        (RecursionError(), r"a.b is not a thing \(RecursionError\): mend it\."),
        (MemoryError(), "a.b asks for more memory than there is"),
        (PermissionError(13, "Permission denied"), r"a.b cannot be read \(Permission denied\)"),
        (UserError("Mine."), r"^Mine\.$"),
    ):
        with pytest.raises(UserError, match=says), reading("a.b", "a thing", "mend it"):
            raise raised
    for passes in (KeyboardInterrupt, SystemExit):
        with pytest.raises(passes), reading("a.b", "a thing"):
            raise passes


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"ids": np.array(3), "types": np.array([0])}, "are needed"),
        ({"ids": IDS, "types": np.array(0)}, "are needed"),
        ({"ids": IDS.astype("<m8[s]"), "types": np.array([0])}, "data type timedelta64"),
        ({"ids": IDS, "types": np.array([0, 2**31 - 1])}, "type 2147483647, but 1000 is the largest"),
        ({"states": np.full((1, 2, 3, 3), 2**31 - 1)}, "numbers its cells up to 2,147,483,647 on 9 sites"),
        ({"ids": IDS, "types": np.array([0]), "provenance": np.array("[1, 2]")}, "no JSON object"),
        ({"ids": IDS, "types": np.array([0]), "provenance": np.array("[" * 100_000)}, "not a readable .npz data set"),
        ({"ids": IDS, "types": np.array([0]), "boundary": np.array([["free"]] * 3)}, "3 boundaries"),
        ({"ids": IDS, "types": np.array([0]), "lattice": np.array(["square", "x"])}, "lattice"),
        ({"ids": IDS, "types": np.array([0]), "type_names": IDS}, r"has shape \(1, 4, 5\), but a list of"),
        ({"ids": IDS, "types": np.array([0]), "type_names": np.full(1002, "A")}, "at most 1001 names"),
    ],
)
def test_data_sets(arrays: dict[str, np.ndarray], says: str, save) -> None:
    with pytest.raises(UserError, match=says):
        load_snapshots(save(**arrays))


def test_further_arrays_that_are_not_the_states_own_are_left_out(save) -> None:
    found = load_snapshots(save(ids=IDS, types=np.array([0]), mcs=np.array([7]), pixel=np.array(0.5), two=np.zeros(2)))
    assert list(found.arrays) == ["mcs"]


def archive_of(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(descr: str, shape: tuple[int, ...], content: bytes = b"") -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    return header.getvalue() + content


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (npy("<i4", (10**6, 10**6)), "entries of 4 bytes, but there are"),
        (npy("<U0", (10**12,)), "entries of 0 bytes, but there are"),
        (npy("<i4", (-1, -5)), "entries of 4 bytes"),
        (npy("<U2", (1,), b"\xff" * 8), "a text that holds no letters"),
        (npy("|O", (1,), b"cos\nsystem\n"), "not a readable"),
        (b"", "not a readable"),
    ],
)
def test_arrays_that_claim_what_is_not_there(member: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        load_snapshots(archive_of(tmp_path / "a.npz", ids=member))


def test_an_archive_that_claims_more_than_it_can_hold(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.npz", ids=npy("|i1", (1, 1000, 1000), bytes(10**6)))
    content = path.read_bytes()
    large = (2 * 10**9).to_bytes(4, "little")
    path.write_bytes(content.replace((10**6 + 128).to_bytes(4, "little"), large))
    with pytest.raises(UserError, match="2,000,000,000 bytes"):
        load_snapshots(path)


def changed_model(tmp_path: Path, change) -> Path:
    import onnx

    model = onnx.load(load_artifact("pretrained:elongated-cells").path)
    entry = next(entry for entry in model.metadata_props if entry.key == "neuralcpm")
    metadata = json.loads(entry.value)
    change(metadata)
    entry.value = json.dumps(metadata)
    del model.metadata_props[1:]  # the seal, which would tell that something was changed, not what
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_ragged_numbers_in_a_model(tmp_path: Path) -> None:
    def ragged(metadata: dict) -> None:
        rows = metadata["symbolic"]["terms"]["contact"]["J"]
        metadata["symbolic"]["terms"]["contact"]["J"] = [rows[0] + rows[1], rows[2]]

    with pytest.raises(UserError, match=r"description of 'symbolic\.contact\.J' differs"):
        load_artifact(changed_model(tmp_path, ragged))
    load_artifact(changed_model(tmp_path, lambda metadata: None))


def test_metadata_that_are_no_text(tmp_path: Path) -> None:
    content = load_artifact("pretrained:elongated-cells").path.read_bytes()
    assert b"neuralcpm-bridge" in content
    (tmp_path / "model.onnx").write_bytes(content.replace(b"neuralcpm-bridge", b"neuralcpm-\xff\xffidge"))
    with pytest.raises(UserError, match="bytes that are no UTF-8"):
        load_artifact(tmp_path / "model.onnx")


def test_texts_that_claim_a_huge_lattice_or_huge_numbers(cli, tmp_path: Path) -> None:
    (tmp_path / "a.pif").write_text("1 A 0 3 0 3 0 0\n")
    options = ("-o", tmp_path / "out.npz")
    code, _, err = cli("data", "import", tmp_path / "a.pif", "--lattice", "9000x9000", *options)
    assert code == 2
    assert "its cells take 16 of these 81,000,000 sites" in err
    for line in ("99999999999999999999 A 0 3 0 3 0 0", f"{'9' * 5000} A 0 3 0 3 0 0"):
        (tmp_path / "a.pif").write_text(line)
        code, _, err = cli("data", "import", tmp_path / "a.pif", "--lattice", "9x9", *options)
        assert code == 2
        assert "Line 1 is '9999" in err
    lattice = '<Space><Lattice class="square"><Size value="inf, 20, 0"/></Lattice></Space>'
    (tmp_path / "a.xml").write_text(f'<MorpheusModel version="4">{lattice}</MorpheusModel>')
    code, _, err = cli("data", "import", tmp_path / "a.xml", *options)
    assert code == 2
    assert "no size 'x, y, z' in numbers" in err


def test_types_that_nobody_declared(cli, tmp_path: Path) -> None:
    (tmp_path / "a.pif").write_text("1 A 0 3 0 3 0 0\n2 Stranger 4 6 0 3 0 0\n")
    (tmp_path / "a.xml").write_text(
        '<CompuCell3D><Potts><Dimensions x="9" y="9" z="1"/></Potts><Plugin Name="CellType">'
        '<CellType TypeId="0" TypeName="Medium"/><CellType TypeId="1" TypeName="A"/></Plugin></CompuCell3D>'
    )
    code, _, err = cli("data", "import", tmp_path / "a.pif", "-o", tmp_path / "out.npz")
    assert code == 2
    assert "has the type Stranger, but its types are A" in err


def test_strips_longer_than_their_file(cli, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.pad(np.ones((4, 4), dtype=np.uint8), 3), metadata=None)
    with tifffile.TiffFile(path, mode="r+") as tiff:
        tiff.pages[0].tags["StripByteCounts"].overwrite(4_000_000_000)
    code, _, err = cli("data", "import", path, "-o", tmp_path / "a.npz")
    assert code == 2
    assert "its image is said to have more" in err


def test_many_types_are_shown_in_part(cli, save) -> None:
    """A table has a column for each type: a thousand of them would take minutes, and nobody could read it."""
    ids = np.zeros((1, 9, 9), dtype=np.int32)
    ids[0, :4], ids[0, 4:] = 1, 2
    code, out, _ = cli("data", "info", save(ids=ids, types=np.array([0, 1, 999])))
    assert code == 0
    assert "991 further types: --json lists all." in " ".join(out.split())


def test_a_checkpoint_whose_header_says_nonsense(refused, tmp_path: Path) -> None:
    """The report reads it without torch, and shows its numbers."""
    whole = {"step": 1, "seconds": 2.0, "evaluations": 3, "config": {"data": {}, "model": {}, "objective": {}}}
    numbers = ({"step": [1]}, {"seconds": None}, {"evaluations": float("inf")})
    for wrong in (*numbers, {"config": {"data": 3}}, {"config": 1}, {}):  # the last lacks its sampler
        header = json.dumps(whole | wrong)
        text = json.dumps({"__metadata__": {"neuralcpm": header}}).encode()
        (tmp_path / "checkpoint.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
        assert "not a checkpoint of this program" in refused("report", tmp_path, "-o", tmp_path / "r.html")


def test_tifffile_keeps_its_words_to_itself(tmp_path: Path) -> None:
    """In a process of its own: pytest catches log lines that a user would see."""
    import subprocess

    (tmp_path / "a.tif").write_bytes(b"II*\x00\x08\x00\x00\x00\xff\xff no image")
    program = "from neuralcpm_bridge.app.cli import main; main()"
    words = [sys.executable, "-c", program, "data", "import", "a.tif", "-o", "a.npz"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2
    assert len(lines) == 2
    assert all(line.startswith("neuralcpm: ") for line in lines), lines


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good files of every kind."""
    pytest.importorskip("torch")
    if sys.platform == "win32":
        pytest.skip("memory and processor time are bounded as Unix does")
    from .fuzz.seeds import make_seeds

    folder = tmp_path_factory.mktemp("fuzz") / "seeds"
    make_seeds(folder)
    return folder


def test_files_that_are_whole_are_taken(seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a campaign would look at refusals of its own commands."""
    from dataclasses import replace

    from .fuzz import worker

    whole = tuple(replace(target, mutate=lambda content, random: content) for target in worker.TARGETS)
    monkeypatch.setattr(worker, "TARGETS", whole)
    (tmp_path / "noise").touch()
    reader = worker.Reader(seeds, tmp_path)
    for number, target in enumerate(whole):
        outcomes = (reader.read(worker.Input(number, turn)) for turn in range(8))
        assert any(outcome.accepted for outcome in outcomes), (target.name, target.files)


def test_a_short_campaign(seeds: Path) -> None:
    """The first inputs of `make fuzz`, always the same ones."""
    from .fuzz.campaign import Tally, campaign, inputs

    tally = Tally()
    for outcome in campaign(seeds, islice(inputs(), 200), workers=1):
        tally.add(outcome)
    assert tally.inputs == 200
    assert 20 < tally.accepted < 120  # neither hopeless nor harmless
    assert tally.findings == []
