from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots, load_state
from neuralcpm_bridge.state import CellState, distinct_labels

from .strategies import lattices, states_on

ORDERS = st.integers(1, 4)


def brute_contacts(state: CellState, types: int, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contacts by type, surfaces by id and boundary sites, from the table of neighbours site by site."""
    ids, table = state.ids.ravel(), state.lattice.neighbours(order)
    contacts, pairs, edge = np.zeros((types, types), dtype=int), np.zeros(state.types.size), np.zeros(ids.size, bool)
    for site, row in enumerate(table):
        for other in row[row >= 0]:
            a, b = ids[site], ids[other]
            if a != b:
                pairs[a] += 1
                edge[site] = True
                contacts[state.types[a], state.types[b]] += 1  # every pair is met from both of its ends
    same_type = np.diag(np.diag(contacts) // 2)
    return contacts - np.diag(np.diag(contacts)) + same_type, pairs * 2 / table.shape[1], edge


@given(states_on(), ORDERS)
def test_contacts_surfaces_and_boundary_by_walking(state: CellState, order: int) -> None:
    contacts, surfaces, edge = brute_contacts(state, 3, order)
    np.testing.assert_array_equal(state.contacts(3, order), contacts)
    np.testing.assert_allclose(state.surfaces(order), surfaces)
    np.testing.assert_array_equal(state.boundary(order).ravel(), edge)


@given(states_on())
def test_neighbours_surround_a_site_where_no_order_is_given(state: CellState) -> None:
    order = state.lattice.geometry.moore_order
    np.testing.assert_array_equal(state.contacts(), state.contacts(order=order))
    np.testing.assert_array_equal(state.surfaces(), state.surfaces(order))
    np.testing.assert_array_equal(state.boundary(), state.boundary(order))


@given(states_on(), ORDERS)
def test_symmetries_change_no_contact_and_no_surface(state: CellState, order: int) -> None:
    for permutation in state.lattice.symmetries():
        moved = CellState(state.ids.ravel()[permutation].reshape(state.shape), state.types, state.lattice)
        np.testing.assert_array_equal(moved.contacts(3, order), state.contacts(3, order))
        np.testing.assert_allclose(moved.surfaces(order), state.surfaces(order))
        np.testing.assert_array_equal(moved.fragments(), state.fragments())


@given(states_on())
def test_channels_round_trip(state: CellState) -> None:
    channels = state.to_channels()
    assert channels.shape == (2, *state.shape)
    again = CellState.from_channels(channels, lattice=state.lattice)
    np.testing.assert_array_equal(again.ids, state.ids)
    assert again.lattice == state.lattice
    present = np.unique(state.ids)
    np.testing.assert_array_equal(again.types[present], state.types[present])


@given(states_on())
def test_volumes_cells_and_type_map(state: CellState) -> None:
    assert state.volumes.tolist() == [int((state.ids == cell).sum()) for cell in range(state.types.size)]
    assert state.cells.tolist() == [cell for cell in range(1, state.types.size) if (state.ids == cell).any()]
    np.testing.assert_array_equal(state.type_map, state.types[state.ids])


def test_a_state_without_a_lattice_is_square_or_cubic_and_periodic() -> None:
    assert CellState(np.zeros((3, 4), int), [0]).lattice == Lattice.of((3, 4), "square", "periodic")
    assert CellState(np.zeros((2, 3, 4), int), [0]).lattice == Lattice.of((2, 3, 4), "cubic", "periodic")


def test_fragments_and_volumes() -> None:
    ids = np.array([[1, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 0], [3, 0, 0, 0]])
    types = np.array([0, 1, 2, 1, 1])
    state = CellState(ids, types)
    assert state.volumes.tolist() == [11, 2, 2, 1, 0]
    assert state.fragments().tolist() == [0, 1, 1, 1, 0]
    assert CellState(ids, types, Lattice.of((4, 4), boundary="free")).fragments().tolist() == [0, 2, 1, 1, 0]
    assert state.cells.tolist() == [1, 2, 3]
    hexagonal = CellState(ids, types, Lattice.of((4, 4), "hexagonal"))
    assert hexagonal.fragments().tolist() == [0, 1, 2, 1, 0], "(1, 1) is no neighbour on skewed axes"


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.int64, np.uint64])
def test_labels_are_renumbered_in_order(kind: type) -> None:
    labels = np.array([[0, 7, 7], [200, 0, 7]], dtype=kind)
    state = CellState.from_labels(labels, {7: 2, 200: 1})
    assert state.ids.tolist() == [[0, 1, 1], [2, 0, 1]]
    assert state.types.tolist() == [0, 2, 1]
    assert CellState.from_labels(labels).types.tolist() == [0, 1, 1]
    assert CellState.from_labels(labels, [3, 4]).types.tolist() == [0, 3, 4]
    stack = CellState.from_labels(np.stack([labels, labels[::-1]]))
    assert (stack.shape, stack.lattice.geometry.name) == ((2, 2, 3), "cubic")
    assert distinct_labels(labels).tolist() == [7, 200]


@pytest.mark.parametrize(
    ("ids", "types", "says"),
    [
        (np.zeros((3, 3)), [0], "float64"),
        (np.zeros((3,), int), [0], "1 dimensions"),
        (np.zeros((2, 3, 3, 3), int), [0], "4 dimensions"),
        (np.zeros((0, 3), int), [0], "empty"),
        (np.array([[0, -1]]), [0], "negative"),
        (np.array([[0, 2]]), [0, 1], r"\(0, 1\) belongs to cell 2, .* up to 1"),
        (np.array([[[0], [2]]]), [0, 1], r"\(0, 1, 0\) belongs to cell 2"),
        (np.array([[0, 1]]), [0, -1], "no type"),
        (np.array([[0, 1]]), [0, 0], "type 0"),
        (np.array([[0, 1]]), [0, -2], "type -2"),
        (np.array([[0, 1]]), [1, 1], "start with 0"),
    ],
)
def test_wrong_states_are_refused(ids: np.ndarray, types: list[int], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        CellState(ids, np.array(types))
    assert "\n" not in str(caught.value)


def test_a_lattice_must_fit_its_ids() -> None:
    with pytest.raises(UserError, match=r"3 × 4 sites, .*cubic lattice has 3 × 4 × 5"):
        CellState(np.zeros((3, 4), int), [0], Lattice.of((3, 4, 5)))


def test_channels_need_one_type_per_cell() -> None:
    with pytest.raises(UserError, match=r"Cell 1 has type 1 at one site and type 2 at \(0, 1\), .* one type"):
        CellState.from_channels(np.array([[[1, 1]], [[1, 2]]]))
    with pytest.raises(UserError, match=r"\[2, H, W\]"):
        CellState.from_channels(np.zeros((3, 4, 4), int))
    with pytest.raises(UserError, match="knows 2 ids"):
        CellState.from_channels(np.array([[[1, 2]], [[1, 1]]]), cells=2)
    with pytest.raises(UserError, match="negative cell type"):
        CellState.from_channels(np.array([[[1, 1]], [[1, -1]]]))


def test_empty_ids_exist_where_the_count_says_so() -> None:
    channels = np.array([[[0, 1]], [[0, 2]]])
    assert CellState.from_channels(channels).types.tolist() == [0, 2]
    assert CellState.from_channels(channels, cells=4).types.tolist() == [0, 2, 1, 1]


# -- data sets -----------------------------------------------------------------------------------------------------


@given(states_on(lattices((3, 8), layouts=[("square", "axes"), ("hexagonal", "axes"), ("cubic", "axes")])))
def test_data_sets_keep_states_and_lattice(tmp_path_factory: pytest.TempPathFactory, state: CellState) -> None:
    path = tmp_path_factory.mktemp("data") / "d.npz"
    other = CellState(state.ids[::-1], state.types[: state.ids.max() + 1], state.lattice)
    Snapshots.from_states([state, other], type_names=("medium", "A", "B"), provenance={"seed": 3}).save(path)
    found = load_snapshots(path)
    assert found.lattice == state.lattice
    assert found.boundary == state.lattice.boundary
    assert (found.type_names, found.provenance) == (("medium", "A", "B"), {"seed": 3})
    np.testing.assert_array_equal(found.ids, [state.ids, other.ids])
    np.testing.assert_array_equal(found[0].types, state.types)
    with np.load(path) as archive:
        assert str(archive["lattice"]) == state.lattice.geometry.name


def test_files_without_a_lattice_are_square_and_periodic(save) -> None:
    ids, types = np.zeros((2, 3, 4), int), np.array([0, 1])
    ids[:, 1, 1] = 1
    found = load_snapshots(save(ids=ids, types=types))
    assert found.lattice == Lattice.of((3, 4))
    assert len(found) == 2
    assert load_snapshots(save(ids=ids[0], types=types)).ids.shape == (1, 3, 4)
    deep = load_snapshots(save(ids=ids[None], types=types))
    assert deep.lattice == Lattice.of((2, 3, 4), "cubic")
    channels = np.stack([ids, ids], axis=1)
    assert load_snapshots(save(states=channels)).lattice == Lattice.of((3, 4))
    assert load_snapshots(save(states=channels[0])).ids.shape == (1, 3, 4)
    assert load_snapshots(save(states=channels[None].swapaxes(1, 2))).lattice == Lattice.of((2, 3, 4))


def test_one_3d_state_needs_no_axis_of_states(save) -> None:
    ids = np.zeros((2, 3, 4), int)
    assert load_snapshots(save(ids=ids, types=np.array([0]), lattice="cubic")).ids.shape == (1, 2, 3, 4)
    assert load_snapshots(save(states=np.stack([ids, ids]), lattice="cubic")).ids.shape == (1, 2, 3, 4)


@pytest.mark.parametrize("words", ["free", ["free"], ["free", "free"]])
def test_one_boundary_is_for_all_axes(words: object, save) -> None:
    path = save(ids=np.zeros((1, 3, 4), int), types=np.array([0]), lattice="hexagonal", boundary=np.array(words))
    assert load_snapshots(path).lattice == Lattice.of((3, 4), "hexagonal", "free")


def test_boundaries_may_differ_between_axes(save) -> None:
    path = save(ids=np.zeros((1, 3, 4), int), types=np.array([0]), boundary=np.array(["free", "periodic"]))
    assert load_snapshots(path).boundary == ("free", "periodic")
    assert load_state(f"{path}:0").lattice.boundary == ("free", "periodic")


PLANE = {"ids": np.zeros((2, 3, 4), int), "types": np.zeros((2, 1), int)}


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        (PLANE | {"lattice": "cubic"}, "a cubic one has 3 axes"),
        (PLANE | {"ids": np.zeros((2, 2, 3, 4), int), "lattice": "hexagonal"}, "a hexagonal one has 2 axes"),
        (PLANE | {"lattice": "triangular"}, "no lattice 'triangular'"),
        (PLANE | {"boundary": "Periodic"}, "'periodic' or 'free'"),
        (PLANE | {"boundary": np.array(["free"] * 3)}, "3 boundaries"),
        (PLANE | {"ids": np.zeros((2, 1, 2, 3, 4), int)}, r"\[N, D, H, W\]"),
        (PLANE | {"types": np.zeros((3, 1), int)}, r"\[N, C\]"),
        (PLANE | {"ids": np.zeros((2, 3, 4))}, "State 0 of .*float64"),
        ({"ids": np.zeros((2, 3, 4), int)}, "'ids' and 'types'"),
        ({"states": np.zeros((4, 3, 3, 4), int)}, r"\[N, 2, H, W\]"),
        ({"states": np.zeros((4, 2, 3, 4), int), "lattice": "cubic"}, "a cubic one has 3 axes"),
        (PLANE | {"ids": np.zeros((0, 3, 4), int), "types": np.zeros((0, 1), int)}, "no states"),
        (PLANE | {"properties": np.zeros((2, 1, 1))}, r"shape \(2, 1, 1\) with the names \(none\)"),
        (PLANE | {"properties": np.zeros((2, 2, 1)), "property_names": ["age"]}, r"but \(2, 1, 1\)"),
        (PLANE | {"properties": np.zeros((2, 1, 2)), "property_names": ["age", "age"]}, "different names"),
        (
            {"states": np.zeros((4, 2, 3, 4), int), "properties": np.zeros((4, 1, 1)), "property_names": ["age"]},
            "'states' and 'properties'",
        ),
    ],
)
def test_wrong_data_sets_are_refused(arrays: dict, says: str, save) -> None:
    with pytest.raises(UserError, match=says) as caught:
        load_snapshots(save(**arrays))
    assert "\n" not in str(caught.value)


def test_a_size_is_checked_before_memory_is_asked_for(tmp_path: Path) -> None:
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i4", "fortran_order": False, "shape": (1, 10**6, 10**6)})
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("ids.npy", header.getvalue())
    with pytest.raises(UserError, match="1 × 1000000 × 1000000 entries of 4 bytes, but there are 128 bytes"):
        load_snapshots(tmp_path / "d.npz")


def test_states_of_several_lattices_are_no_data_set() -> None:
    plane = CellState(np.zeros((3, 3), int), [0])
    free = CellState(plane.ids, [0], Lattice.of((3, 3), boundary="free"))
    for states, says in (([plane, free], "2 different lattices"), ([], "no states")):
        with pytest.raises(UserError, match=says):
            Snapshots.from_states(states)
    with pytest.raises(UserError, match="3 × 3 sites, but their lattice has 4 × 4"):
        Snapshots(plane.ids[None], plane.types[None], lattice=Lattice.of((4, 4)))


def test_rows_of_hexagons_are_not_saved(tmp_path: Path) -> None:
    state = CellState(np.zeros((4, 4), int), [0], Lattice.of((4, 4), "hexagonal", "free", "rows"))
    with pytest.raises(UserError, match="skewed axes"):
        Snapshots.from_states([state]).save(tmp_path / "d.npz")


@given(states_on(lattices((3, 8), layouts=[("square", "axes"), ("hexagonal", "axes"), ("cubic", "axes")])))
def test_properties_of_cells_go_through_a_file(tmp_path_factory: pytest.TempPathFactory, state: CellState) -> None:
    rng, path = np.random.default_rng(int(state.ids.sum())), tmp_path_factory.mktemp("data") / "d.npz"
    columns = {name: rng.normal(size=state.types.size) for name in ("age", "GFP_2")}
    named = replace(state, properties=columns)
    fewer = CellState(np.zeros(state.shape, int), [0], state.lattice, {"GFP_2": [7], "age": [8]})
    Snapshots.from_states([named, fewer]).save(path)
    read = load_snapshots(path)
    assert read.property_names == ("age", "GFP_2")
    for name, values in columns.items():
        np.testing.assert_array_equal(read[0].properties[name], np.where(state.types > 0, values, 0))
        assert not read[1].properties[name].any()
    assert tuple(read.chosen([1, 0]).reading(("GFP_2",))[1].properties) == ("GFP_2",)


def test_properties_of_one_tissue_hold_for_all_its_states(save) -> None:
    path = save(ids=np.ones((3, 2, 2), int), types=np.array([0, 1]), properties=[[0.0], [2.5]], property_names=["age"])
    assert [state.properties["age"].tolist() for state in load_snapshots(path)] == [[0, 2.5]] * 3


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"age": [0.0]}, r"shape \(1,\).* each of the 2 ids"),
        ({"age": [0.0, np.nan]}, "'age' of cell 1 is nan"),
        ({"age": ["a", "b"]}, "one number"),
        ({"my age": [0.0, 1.0]}, "called 'my age'"),
    ],
)
def test_wrong_properties_are_refused(properties: dict, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        CellState(np.ones((2, 2), int), [0, 1], properties=properties)
    assert "\n" not in str(caught.value)


def test_states_of_a_data_set_have_the_same_properties() -> None:
    states = [CellState(np.ones((2, 2), int), [0, 1], properties={name: [0, 1.0]}) for name in ("age", "size")]
    with pytest.raises(UserError, match="State 1 has the properties size of cells, but the first one has age"):
        Snapshots.from_states(states)
    with pytest.raises(UserError, match=r"give \[N, C, P\]"):
        Snapshots(np.ones((1, 2, 2), np.int32), np.array([[0, 1]]), properties=np.zeros((1, 2, 1)))


def test_some_states_of_a_data_set() -> None:
    ids = np.arange(4 * 6).reshape(4, 2, 3).clip(max=1)
    data = Snapshots(ids, np.array([[0, 1]] * 4), ("medium", "A"), arrays={"mcs": np.arange(4)})
    some = data.chosen([3, 1])
    assert some.arrays["mcs"].tolist() == [3, 1]
    np.testing.assert_array_equal(some.ids, ids[[3, 1]])
    assert (some.type_names, some.lattice) == (data.type_names, data.lattice)
