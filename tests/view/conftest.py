"""A server with a small tissue, for tests with and without a browser."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuralcpm_bridge.app.cli.view import open_view
from neuralcpm_bridge.app.view.server import ViewServer
from neuralcpm_bridge.artifact import Artifact, load_artifact

from ..analytic import artifact_of, metadata_of, weights_of

MODEL = "pretrained:elongated-cells"


def analytic(geometry: str) -> Artifact:
    """A model of contact and volume energies on any lattice."""
    weights = weights_of(np.random.default_rng(3), ("contact", "volume"))
    return artifact_of(weights, metadata_of(weights, geometry))


@pytest.fixture
def serve() -> Iterator[Callable[..., ViewServer]]:
    servers: list[ViewServer] = []

    def start(model: Artifact | Path | str = MODEL, **options: Any) -> ViewServer:
        server = open_view(model if isinstance(model, Artifact) else load_artifact(model), **options)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
