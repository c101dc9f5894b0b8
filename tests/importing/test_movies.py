"""Time-lapses: which frames belong together, when each was taken, and cells that keep their ids over a movie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.movies import Pair, frame_pairs, has_movies, is_tracked, time_unit

from .making import labels, problems, save_image, tifffile


def tracked_frames() -> np.ndarray:
    """Four frames; cell 7 has died in the third and does not come back, cell 9 appears in the last."""
    frames = np.stack([labels(), labels(shift=1), labels(shift=1), labels(shift=2)]).astype(np.uint16)
    frames[2:][frames[2:] == 7] = 0
    frames[3, 1:4, 15:20] = 9
    return frames


def numbered_anew() -> np.ndarray:
    frames = tracked_frames()
    for number, (a, b) in {1: (3, 7), 3: (3, 200)}.items():
        first, second = frames[number] == a, frames[number] == b
        frames[number][first], frames[number][second] = b, a
    return frames


IMAGEJ = {"axes": "TYX", "finterval": 30.0}


def test_a_stack_of_frames_is_a_movie_whose_cells_keep_their_ids(load, tmp_path: Path) -> None:
    frames = tracked_frames()
    tifffile.imwrite(tmp_path / "a.tif", frames, imagej=True, metadata=IMAGEJ)
    found, said = load(tmp_path / "a.tif")
    assert "1 movie of 4 frames together: cells keep their numbers" in said
    assert found.arrays["movie"].tolist() == [0] * 4
    assert found.arrays["time"].tolist() == [0, 30, 60, 90]
    assert time_unit(found) == "s"
    assert (found.ids == np.searchsorted([0, 3, 7, 9, 200], frames)).all()
    assert found.types.tolist() == [[0, 1, 1, -1, 1], [0, 1, 1, -1, 1], [0, 1, -1, -1, 1], [0, 1, -1, 1, 1]]
    assert frame_pairs(found) == [Pair(k, k + 1, 30.0) for k in range(3)]
    assert is_tracked(found, frame_pairs(found))


def test_labels_that_change_from_frame_to_frame_are_noticed(load, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", numbered_anew(), imagej=True, metadata={"axes": "TYX"})
    found, said = load(tmp_path / "a.tif")
    assert "every frame numbers its cells anew" in said
    assert not found.arrays["tracked"].any()
    assert time_unit(found) == "frames"
    assert found.arrays["time"].tolist() == [0, 1, 2, 3]
    assert found.types[2].tolist() == [0, 1, 1, -1]


def test_ome_notes_its_interval(load, tmp_path: Path) -> None:
    metadata = {"axes": "TYX", "TimeIncrement": 5.0, "TimeIncrementUnit": "min"}
    tifffile.imwrite(tmp_path / "a.ome.tif", tracked_frames(), ome=True, photometric="minisblack", metadata=metadata)
    found, _ = load(tmp_path / "a.ome.tif")
    assert (found.arrays["time"].tolist(), time_unit(found)) == ([0, 5, 10, 15], "min")


def test_files_of_a_folder_are_a_movie_if_told_so(load, tmp_path: Path) -> None:
    for movie in ("one", "two"):
        (tmp_path / movie).mkdir()
        for number, frame in enumerate(tracked_frames()):
            save_image(tmp_path / movie / f"t{number + 8}.tif", frame)
    folders = (tmp_path / "one", tmp_path / "two")
    found, said = load(*folders)
    assert not has_movies(found)
    assert "movie" not in said
    found, said = load(*folders, "--frame-interval", "10min")
    assert "2 movies of 8 frames together" in said
    assert found.arrays["movie"].tolist() == [0] * 4 + [1] * 4
    assert found.arrays["time"].tolist() == [0, 10, 20, 30] * 2
    assert time_unit(found) == "min"
    (tmp_path / "one" / "t9.tif").write_text("not an image")
    found, _ = load(tmp_path / "one", "--frame-interval", "2", "--skip-bad")
    assert found.arrays["time"].tolist() == [0, 4, 6]


def test_images_per_type_keep_ids_over_a_movie(load, tmp_path: Path) -> None:
    for number, frame in enumerate(tracked_frames()):
        save_image(tmp_path / f"t{number}_red.tif", np.where(frame == 200, 1, 0))
        save_image(tmp_path / f"t{number}_green.tif", np.where(frame == 200, 0, frame))
    found, _ = load(tmp_path, "--type", "A=_red", "--type", "B=_green", "--frame-interval", "1")
    assert found.arrays["time"].tolist() == [0, 1, 2, 3]
    assert found.arrays["tracked"].all()
    assert found.types.tolist() == [[0, 1, 2, 2, -1], [0, 1, 2, 2, -1], [0, 1, 2, -1, -1], [0, 1, 2, -1, 2]]


def test_frames_of_a_movie_are_cropped_alike(load, tmp_path: Path) -> None:
    frames = np.zeros((3, 40, 40), dtype=np.uint16)
    for number in range(3):
        frames[number, 12 + number : 18 + number, 14:20] = 5
    tifffile.imwrite(tmp_path / "a.tif", frames, imagej=True, metadata=IMAGEJ)
    found, _ = load(tmp_path / "a.tif", "--border", "crop")
    tops = [int(np.argwhere(ids)[:, 0].min()) for ids in found.ids]
    assert np.diff(tops).tolist() == [1, 1]


@pytest.mark.parametrize("text", ["0", "-3", "soon", "nan", "10 min 5"])
def test_intervals_that_are_none_are_refused(text: str, cli, tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", labels())
    assert "--frame-interval is" in problems(cli, tmp_path, f"--frame-interval={text}")[0]
