import numpy as np
import pytest
from hypothesis import given

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import CellState

from .strategies import states


def brute_contacts(state: CellState, types: int, periodic: bool) -> np.ndarray:
    height, width = state.shape
    table = np.zeros((types, types), dtype=int)
    for row in range(height):
        for col in range(width):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                r, c = row + down, col + right
                if not periodic and not (0 <= r < height and 0 <= c < width):
                    continue
                a, b = state.ids[row, col], state.ids[r % height, c % width]
                if a != b:
                    low, high = sorted((state.types[a], state.types[b]))
                    table[low, high] += 1
    return np.triu(table) + np.triu(table, 1).T


@given(states())
def test_contacts_count_every_pair_once(state: CellState) -> None:
    for periodic in (True, False):
        np.testing.assert_array_equal(state.contacts(3, periodic), brute_contacts(state, 3, periodic))


@given(states())
def test_channels_round_trip(state: CellState) -> None:
    again = CellState.from_channels(state.to_channels())
    np.testing.assert_array_equal(again.ids, state.ids)
    present = np.unique(state.ids)
    np.testing.assert_array_equal(again.types[present], state.types[present])


@given(states())
def test_boundary_sites_have_a_different_neighbour(state: CellState) -> None:
    height, width = state.shape
    padded = np.pad(state.ids, 1, mode="wrap")
    expected = np.zeros(state.shape, dtype=bool)
    for down in range(3):
        for right in range(3):
            expected |= padded[down : down + height, right : right + width] != state.ids
    np.testing.assert_array_equal(state.boundary(), expected)


def test_fragments_and_volumes() -> None:
    ids = np.array([[1, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 0], [3, 0, 0, 0]])
    state = CellState(ids, np.array([0, 1, 2, 1, 1]))
    assert state.volumes.tolist() == [11, 2, 2, 1, 0]
    assert state.fragments(periodic=True).tolist() == [0, 1, 1, 1, 0]
    assert state.fragments(periodic=False).tolist() == [0, 2, 1, 1, 0]
    assert state.cells.tolist() == [1, 2, 3]


def test_labels_are_renumbered_in_order() -> None:
    labels = np.array([[0, 7, 7], [300, 0, 7]])
    state = CellState.from_labels(labels, {7: 2, 300: 1})
    assert state.ids.tolist() == [[0, 1, 1], [2, 0, 1]]
    assert state.types.tolist() == [0, 2, 1]
    assert CellState.from_labels(labels).types.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("ids", "types", "says"),
    [
        (np.zeros((3, 3)), [0], "float64"),
        (np.zeros((3, 3, 3), int), [0], "3 dimensions"),
        (np.zeros((0, 3), int), [0], "empty"),
        (np.array([[0, -1]]), [0], "negative"),
        (np.array([[0, 2]]), [0, 1], "up to 1"),
        (np.array([[0, 1]]), [0, -1], "no type"),
        (np.array([[0, 1]]), [0, 0], "type 0"),
        (np.array([[0, 1]]), [1, 1], "start with 0"),
    ],
)
def test_wrong_states_are_refused(ids: np.ndarray, types: list[int], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        CellState(ids, np.array(types))
    assert "\n" not in str(caught.value)


def test_channels_need_one_type_per_cell() -> None:
    with pytest.raises(UserError, match="one type"):
        CellState.from_channels(np.array([[[1, 1]], [[1, 2]]]))
    with pytest.raises(UserError, match=r"\[2, H, W\]"):
        CellState.from_channels(np.zeros((3, 4, 4), int))
    with pytest.raises(UserError, match="knows 2 ids"):
        CellState.from_channels(np.array([[[1, 2]], [[1, 1]]]), cells=2)


def test_empty_ids_exist_where_the_count_says_so() -> None:
    channels = np.array([[[0, 1]], [[0, 2]]])
    assert CellState.from_channels(channels).types.tolist() == [0, 2]
    assert CellState.from_channels(channels, cells=4).types.tolist() == [0, 2, 1, 1]
