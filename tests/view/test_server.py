"""The server of view: what it answers, and to whom."""

from __future__ import annotations

import http.client
import io
import json
import signal
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from neuralcpm_bridge.app.view.server import ViewServer
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.snapshots import Snapshots

from ..test_format1 import FOLDER
from .conftest import MODEL, analytic


def ask(
    server: ViewServer, name: str, body: Any = None, headers: dict[str, str] | None = None, token: str | None = None
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    path = f"/{server.token if token is None else token}/{name}"
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("GET" if body is None else "POST", path, content, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def frame_of(content: bytes) -> tuple[dict[str, Any], np.ndarray]:
    (length,) = struct.unpack("<I", content[:4])
    return json.loads(content[4 : 4 + length]), np.frombuffer(content[4 + length :], dtype="<i4")


def test_the_tissue_moves_as_the_embedded_host_moves_it(serve) -> None:
    from neuralcpm_bridge.embedded import Dynamics, open_chains

    server = serve()
    start, ids = frame_of(ask(server, "frame")[1])
    assert start["mcs"] == 0
    artifact = load_artifact(MODEL)
    assert (ids.reshape(60, 60) == initial_state(artifact, "blob").ids).all()
    for _ in range(3):
        said, moved = frame_of(ask(server, "advance", {"mcs": 4})[1])
    assert said["mcs"] == 12
    chains = open_chains(artifact, [initial_state(artifact, "blob")], Dynamics(1.0, forbid_extinction=True))
    chains.advance(12)
    assert (moved.reshape(60, 60) == chains.states()[0].ids).all()
    again, ids_again = frame_of(ask(server, "restart", {})[1])
    assert again["mcs"] == 0
    assert (ids_again == ids).all()
    assert len(json.loads(ask(server, "rows")[1])) == 1


def test_settings_change_what_it_moves_under(serve) -> None:
    server = serve()
    full = server.tissue.energy()
    assert json.loads(ask(server, "settings", {"weight": 0.25, "temperature": 0})[1]) == {
        "temperature": 0,
        "weight": 0.25,
    }
    assert server.tissue.energy().symbolic == full.symbolic
    assert server.tissue.energy().neural == pytest.approx(0.25 * full.neural)
    before = server.tissue.energy().total
    ask(server, "advance", {"mcs": 20})
    assert server.tissue.energy().total < before  # without temperature it only falls
    for wrong in ({"temperature": -1}, {"weight": 11}, {"weight": "x"}, {"temperature": None}, {"weight": True}):
        status, content, _ = ask(server, "settings", wrong)
        assert status == 400, wrong
        assert json.loads(content)["error"].endswith(".")


def test_a_cell_and_its_energy(serve) -> None:
    server = serve()
    ask(server, "advance", {"mcs": 30})
    state = server.tissue.state()
    cell = json.loads(ask(server, "cell?id=3")[1])
    assert cell["volume"] == (state.ids == 3).sum()
    assert cell["type"] == load_artifact(MODEL).metadata.types[state.types[3]]
    backend = open_backend(load_artifact(MODEL), state)
    assert cell["inside"] == bool(backend.inside_range()[3])
    before = backend.energy().total
    backend.change_pixels(np.flatnonzero(state.ids.ravel() == 3), np.zeros(cell["volume"], dtype=int))
    backend.set_type(3, -1)
    assert cell["energy"] == pytest.approx(before - backend.energy().total, abs=1e-3)
    assert cell["energy"] == pytest.approx(cell["symbolic"] + cell["neural"])
    for wrong in ("0", "-1", "999", "x", "1e400", ""):
        status, content, _ = ask(server, f"cell?id={wrong}")
        assert (status, list(json.loads(content))) == (400, ["error"])


def test_slices_of_3d(serve) -> None:
    server = serve(analytic("cubic"), lattice="12x14x16", cells=3)
    state = server.tissue.state()
    for axis, index in ((0, 5), (1, 7), (2, 15)):
        _, ids = frame_of(ask(server, f"frame?axis={axis}&index={index}")[1])
        assert (ids == np.take(state.ids, index, axis).ravel()).all()
        content = ask(server, f"plane?axis={axis}")[1]
        rows, columns = struct.unpack("<II", content[:8])
        sites = np.frombuffer(content[8:], dtype="<i4").reshape(rows, columns)
        assert sites.max() == ids.size - 1
        assert (np.unique(sites) == np.arange(ids.size)).all()
    assert ask(server, "frame?axis=3")[0] == 400


def test_hexagons_lie_where_pictures_have_them(serve) -> None:
    server = serve(analytic("hexagonal"), lattice="12x10", cells=3)
    content = ask(server, "plane")[1]
    rows, columns = struct.unpack("<II", content[:8])
    sites = np.frombuffer(content[8:], dtype="<i4")
    assert sites.size == rows * columns
    assert set(np.unique(sites)) - {-1} == set(range(120))


def test_models_on_onnx_runtime(serve) -> None:
    server = serve(FOLDER / "cnn.onnx")
    ask(server, "settings", {"weight": 0.5})
    half = server.tissue.energy()
    ask(server, "settings", {"weight": 1.0})
    assert server.tissue.energy().neural == pytest.approx(2 * half.neural)
    flip = server.tissue.chains.backends[0]
    site = int(np.flatnonzero(server.tissue.state().boundary())[0])
    symbolic, neural = flip.deltas([site], [0])[0]
    ask(server, "settings", {"weight": 0.5})
    assert server.tissue.chains.backends[0].delta(site, 0) == pytest.approx(symbolic + 0.5 * neural)


def test_pictures(serve) -> None:
    server = serve()
    for _ in range(3):
        ask(server, "advance", {"mcs": 2})
    with Image.open(io.BytesIO(ask(server, "snapshot.png")[1])) as picture:
        assert picture.format == "PNG"
        assert picture.width > 800
    with Image.open(io.BytesIO(ask(server, "animation.gif")[1])) as moving:
        assert moving.format == "GIF"
        assert moving.n_frames == len(server.tissue.memory.states)


def test_the_data_beside_the_measures(serve, tmp_path) -> None:
    alone = json.loads(ask(serve(), "about")[1])
    artifact = load_artifact(MODEL)
    kept = [artifact.weights[f"neural.{end}"][1:, 0] for end in ("low", "high")]
    assert alone["bands"]["volume_mean"] == pytest.approx([kept[0].min(), kept[1].max()], abs=0.01)
    assert "training data" in alone["bands_from"]
    states = [initial_state(artifact, "blob", seed=seed) for seed in range(4)]
    Snapshots.from_states(states, type_names=artifact.metadata.types).save(tmp_path / "data.npz")
    about = json.loads(ask(serve(state=f"{tmp_path}/data.npz:2"), "about")[1])
    means = [state.volumes[state.cells].mean() for state in states]
    assert np.mean(about["bands"]["volume_mean"]) == pytest.approx(np.mean(means))
    assert "4 states" in about["bands_from"]


def test_memory_is_bounded() -> None:
    from neuralcpm_bridge.app.view.tissue import FRAMES, REMEMBERED, Memory
    from neuralcpm_bridge.state import CellState

    memory, state = Memory(), CellState(np.zeros((2, 2), dtype=int), [0])
    for mcs in range(3 * REMEMBERED):
        memory.add(mcs, state, {"energy": float("nan")})
    assert len(memory.rows) <= REMEMBERED
    assert len(memory.states) <= FRAMES
    for times in ([row["mcs"] for row in memory.rows], [mcs for mcs, _ in memory.states]):
        assert times[0] == 0
        assert times == sorted(times)
    assert memory.rows[-1] == {"mcs": 3 * REMEMBERED - 1, "energy": None}


# -- who may ask ---------------------------------------------------------------------------------------------------


def test_only_this_page_may_ask(serve) -> None:
    server = serve()
    own = server.origin.removeprefix("http://")
    assert ask(server, "about")[0] == 200
    assert ask(server, "about", token="guessed")[0] == 404
    assert ask(server, "", token="")[0] == 404
    for headers in (
        {"Host": f"evil.example:{server.server_port}"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{server.server_port + 1}"},
    ):
        for body in (None, {"mcs": 1}):
            assert ask(server, "advance" if body else "about", body, headers)[0] == 403, headers
    assert server.tissue.mcs == 0
    assert ask(server, "advance", {"mcs": 1}, {"Host": own, "Origin": server.origin})[0] == 200
    assert server.server_address[0] == "127.0.0.1"


def test_requests_that_make_no_sense(serve) -> None:
    server = serve()
    for name, body in (
        ("advance", b"{"),
        ("advance", b"[1]"),
        ("advance", b"[" * 60_000),
        ("advance", b"\xff"),
        ("advance", {"mcs": 0}),
        ("advance", {"mcs": 10**9}),
        ("advance", {"mcs": 10**400}),
        ("advance", {"mcs": 1, "axis": 7}),
        ("settings", b" " * 70_000),
    ):
        status, content, _ = ask(server, name, body)
        assert status == 400, (name, body)
        assert json.loads(content)["error"].endswith(".")
    assert ask(server, "../secrets")[0] == 404
    assert ask(server, "advance")[0] == 404  # only by POST
    assert ask(server, "about", {})[0] == 404
    assert ask(server, "frame")[0] == 200


def test_every_answer_keeps_the_browser_from_going_elsewhere(serve) -> None:
    server = serve()
    for name in ("", "view.js", "view.css", "charts.js", "about", "nothing"):
        _, content, headers = ask(server, name)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert b"http://" not in content.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in content


# -- the verb ------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken(serve, refused) -> None:
    said = refused("view", MODEL, "--port", serve().server_port)
    assert "cannot be used" in said
    assert "--port" in said


def test_the_verb_serves_until_it_is_interrupted() -> None:
    # Jobs in the background of a shell are born deaf to interrupts.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = "import sys; sys.modules['torch'] = None; from neuralcpm_bridge.app.cli import main; main()"
    words = [sys.executable, "-c", hearing + program, "view", MODEL, "--init", "scatter"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    port, token = line.split("127.0.0.1:")[1].split("/")[:2]
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    connection.request("GET", f"/{token}/about")
    assert json.loads(connection.getresponse().read())["name"] == "elongated-cells"
    connection.close()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), err) == (0, "ended", "")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--init", "blob", "--state", "x.npz"), "give either --state"),
        (("--state", "none.npz"), "no file none.npz"),
        (("--lattice", "100000x100000"), "memory"),
        (("--port", "99999"), "--port"),
    ],
)
def test_what_is_refused(options: tuple[str, ...], says: str, refused) -> None:
    assert says in refused("view", MODEL, *options)
