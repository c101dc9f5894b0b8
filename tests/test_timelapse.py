"""Movies of known time steps, made by the engine: found again, within the error that is stated, on every lattice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.new import write_project
from morpheus_xml.new import RunPlan, new_model
from neuralcpm_bridge._engine import Model
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.movies import Frame, cell_changes, frame_pairs, is_tracked, linked_by_place
from neuralcpm_bridge.pretrained import resolve_model
from neuralcpm_bridge.sampling import ChainRules
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.timelapse import FrameTime, crossing, frame_note, has_movies, isotonic, mcs_per_frame
from training.datasets import RECIPES, Recipe, generate, recipe_model

from .analytic import blocks

SMALL = replace(RECIPES["elongation"], side=44, cells=8, radius=12.0, target=60.0, length=None)


def recipe_on(geometry: str) -> Recipe:
    if geometry == "cubic":
        return replace(SMALL, geometry="cubic", side=16, target=50.0, radius=5.0)
    return SMALL.on(geometry)


def movie(
    recipe: Recipe, model: Model, steps: Sequence[int], times: Sequence[float] | None = None, seed: int = 0
) -> Snapshots:
    """Two movies; `steps` in Monte Carlo steps lie between their frames, which are one unit of time apart if `times`
    does not say."""
    now = generate(recipe, samples=2, mcs=150, seed=seed)
    rules, frames = ChainRules(model.temperature), [now]
    for number, mcs in enumerate(steps):
        now, _ = rules.run(model, now, mcs, 1000 * seed + number)
        frames.append(now)
    when = np.arange(len(frames), dtype=float) if times is None else np.asarray(times, dtype=float)
    return Snapshots(
        np.concatenate([frame.ids for frame in frames]),
        np.concatenate([frame.types for frame in frames]),
        now.type_names,
        now.lattice,
        arrays={"movie": np.tile([0, 1], len(frames)), "time": np.repeat(when, 2)},
    )


def deviation(found: FrameTime, truth: float) -> float:
    """In standard errors."""
    assert found.mcs_per_frame is not None
    assert found.error is not None
    assert 0 < found.error < 0.7 * truth
    return (found.mcs_per_frame - truth) / found.error


@pytest.mark.parametrize("geometry", ["square", "hexagonal", "cubic"])
def test_the_time_between_frames_is_recovered_within_its_error(geometry: str) -> None:
    recipe = recipe_on(geometry)
    model = recipe_model(recipe)
    off = []
    for seed, mcs in enumerate((1, 4, 12, 25)):
        found = mcs_per_frame(model, movie(recipe, model, [mcs] * 6, seed=seed), seed=seed)
        off.append(deviation(found, mcs))
        assert found.tracked
        assert found.pairs == 12
        assert found.as_json()["mcs_per_frame"] == [found.mcs_per_frame, found.error]
    assert max(map(abs, off)) < 4
    assert np.sqrt(np.mean(np.square(off))) < 2  # 1 expected; by chance above 2 once in some thousand


def test_numbers_that_do_not_follow_cells_are_noticed_and_not_needed() -> None:
    recipe = recipe_on("square")
    model, rng = recipe_model(recipe), np.random.default_rng(0)
    data = movie(recipe, model, [5] * 8)
    assert is_tracked(data, frame_pairs(data))
    for number, ids in enumerate(data.ids):  # each frame numbers its cells anew, within their types
        new = np.r_[0, 1 + rng.permutation(4), 5 + rng.permutation(4)].astype(np.int32)
        data.ids[number] = new[ids]
    found = mcs_per_frame(model, data)
    assert not found.tracked
    assert "do not follow them" in found.notes[0]
    assert abs(deviation(found, 5)) < 4


def test_frames_at_different_distances_share_one_rate() -> None:
    recipe = recipe_on("square")
    model = recipe_model(recipe)
    found = mcs_per_frame(model, movie(recipe, model, [4, 12] * 4, 0.5 * np.cumsum([0, *[1, 3] * 4]), seed=3))
    assert found.interval in (0.5, 1.0, 1.5)
    assert abs(deviation(found, 8 * found.interval)) < 4


def test_a_single_pair_of_frames_has_an_error_from_its_cells() -> None:
    recipe = replace(recipe_on("square"), cells=16, radius=18.0, side=60)
    model = recipe_model(recipe)
    found = mcs_per_frame(model, movie(recipe, model, [6]), replicates=4)
    assert found.pairs == 2
    assert abs(deviation(found, 6)) < 4


def test_frames_farther_apart_than_cells_remember_give_a_lower_bound() -> None:
    recipe = replace(SMALL, side=14, cells=4, radius=4.0, target=20.0)
    model = recipe_model(recipe)
    data = movie(recipe, model, [4000] * 8)
    data.arrays["tracked"] = np.ones(len(data), dtype=bool)
    found = mcs_per_frame(model, data, most_mcs=1500)
    assert found.mcs_per_frame is None
    assert found.at_least is not None
    assert 1 < found.at_least < 4000
    assert "at least" in found.sentence
    assert any("farther apart than the model's cells remember" in note for note in found.notes)
    assert found.as_json()["mcs_per_frame"] is None


def test_a_search_that_ends_too_early_says_so() -> None:
    recipe = recipe_on("square")
    model = recipe_model(recipe)
    found = mcs_per_frame(model, movie(recipe, model, [60] * 6), most_mcs=8)
    assert found.mcs_per_frame is None
    assert found.at_least is not None
    assert found.at_least <= 8
    assert any("longer than the" in note for note in found.notes)


def test_what_is_no_movie_is_refused() -> None:
    recipe = recipe_on("square")
    model = recipe_model(recipe)
    alone = generate(recipe, samples=3, mcs=100)
    assert not has_movies(alone)
    with pytest.raises(UserError, match="holds no movie"):
        mcs_per_frame(model, alone)
    rng = np.random.default_rng(1)
    mixed = [np.r_[0, 1 + rng.permutation(8)].astype(np.int32)[ids] for ids in alone.ids]
    arrays = {"movie": np.zeros(3, int), "time": np.arange(3.0), "tracked": np.zeros(3, bool)}
    unrelated = replace(alone, ids=np.array(mixed), types=np.where(alone.types > 0, 1, 0), arrays=arrays)
    with pytest.raises(UserError, match="of the cells were found again"):
        mcs_per_frame(model, unrelated)
    at_once = replace(unrelated, arrays={"movie": np.zeros(3, int), "time": np.zeros(3)})
    with pytest.raises(UserError, match="have the same time"):
        frame_pairs(at_once)
    with pytest.raises(UserError, match="give one number for each"):
        frame_pairs(replace(unrelated, arrays={"movie": np.zeros(2, int), "time": np.zeros(3)}))


def test_chains_of_simulate_are_movies() -> None:
    recipe = recipe_on("square")
    model = recipe_model(recipe)
    data = movie(recipe, model, [10] * 5)
    arrays = {"chain": data.arrays["movie"], "mcs": 10 * data.arrays["time"].astype(int)}
    found = mcs_per_frame(model, replace(data, arrays=arrays))
    assert (found.interval, found.unit) == (10, "MCS")
    assert abs(deviation(found, 10)) < 4


def test_changes_of_cells_by_hand() -> None:
    """A square of 4 × 4 moves by one column across a periodic border; a second one stays."""
    before, after = np.zeros((12, 12), dtype=np.int32), np.zeros((12, 12), dtype=np.int32)
    before[2:6, 8:12], after[2:6, [9, 10, 11, 0]] = 1, 1
    before[8:11, 2:6] = after[8:11, 2:6] = 2
    states = [Frame(CellState(ids, np.array([0, 1, 1], dtype=np.int32))) for ids in (before, after)]
    for tracked in (True, False):
        found = cell_changes(*states, tracked=tracked)
        # Displacements less their mean: half a column each. A quarter of the first one's sites are lost.
        np.testing.assert_allclose(found, [[0.25, 0.25, 0], [0.25, 0, 0]], atol=1e-12)
    assert linked_by_place(before, np.roll(after, 6, axis=1))[0].size == 0


def test_noise_on_a_rising_curve() -> None:
    assert isotonic(np.array([0.0, 2, 1, 4, 3, 5])).tolist() == [0, 1.5, 1.5, 3.5, 3.5, 5]
    times = np.arange(6.0)
    assert crossing(times, np.array([0.0, 2, 1, 4, 3, 5]), 1.5) == 1.5
    assert crossing(times, times**2, 9.0) == 3
    assert crossing(times, times, 5.0) == np.inf


def known(**more: object) -> dict[str, object]:
    return {"mcs_per_frame": [12.34, 0.81], "frame_interval": 10.0, "time_unit": "min"} | more


def test_generated_projects_say_what_a_frame_is(tmp_path: Path) -> None:
    lattice = Lattice.of((12, 12))
    plain = load_artifact(resolve_model("pretrained:cell-sorting"))
    told = replace(plain, metadata=plain.metadata.model_copy(update={"training": known()}))
    state = blocks(np.random.default_rng(0), lattice)
    for artifact, says in ((plain, False), (told, True)):
        folder = tmp_path / str(says)
        write_project(artifact, state, folder)
        script = (folder / "Simulation" / f"{folder.name}.py").read_text(encoding="utf-8")
        assert ("1 frame (10 min) = 12.3 ± 0.81 MCS" in script) == says
        compile(script, "script", "exec")
        written = new_model(artifact, state, RunPlan()).tobytes().decode()
        assert ("1 frame (10 min) = 12.3 ± 0.81 MCS" in written) == says


@pytest.mark.parametrize(
    ("training", "says"),
    [
        (known(time_unit="frames"), "1 frame = 12.3 ± 0.81 MCS"),
        (known(time_unit="s\nimport os"), "1 frame = 12.3 ± 0.81 MCS"),
        (known(frame_interval="10"), "1 frame = 12.3 ± 0.81 MCS"),
        (known(mcs_per_frame=None), ""),
        (known(mcs_per_frame=["1", 2]), ""),
        (known(mcs_per_frame=[1.0, float("nan")]), ""),
        ({}, ""),
    ],
)
def test_what_a_strangers_file_says_of_time_is_checked(training: dict[str, object], says: str) -> None:
    assert frame_note(training) == says
