"""A learned term in CompuCell3D without a project: PyCoreSpecs and CC3DSimService.

    /path/to/cc3d/python examples/cc3d_plain_python.py model.onnx 200

Run it with the Python that imports cc3d, after `pip install neuralcpm-bridge` there.
"""

import sys
from functools import partial

from cc3d import CompuCellSetup
from cc3d.CompuCellSetup.CC3DCaller import CC3DSimService
from cc3d.core.PyCoreSpecs import BlobInitializer, CellTypePlugin, ContactPlugin, Metadata, PottsCore, VolumePlugin

from cc3d_steppables import NeuralHamiltonianSteppable
from neuralcpm_bridge import load_artifact
from neuralcpm_bridge.conventions import TARGETS, symbolic_values
from neuralcpm_bridge.errors import UserError


def main(model: str, steps: int) -> None:
    meta = load_artifact(model).metadata
    if meta.lattice.geometry != "square":
        raise UserError(
            f"The model is for {meta.lattice.geometry} lattices, but a square one is used here: use another."
        )
    own = symbolic_values(meta, TARGETS["cc3d"])  # the closure's own J, λ, V* and T in CC3D's units
    contacts, volumes = own.terms["contact"], own.terms["volume"]
    names = ["Medium", *meta.types[1:]]

    volume = VolumePlugin()
    for number, name in enumerate(names[1:], 1):
        volume.param_new(
            name, target_volume=float(volumes["target"][number]), lambda_volume=float(volumes["strength"][number])
        )
    contact = ContactPlugin(neighbor_order=contacts.order)
    for one, first in enumerate(names):
        for other, second in enumerate(names[one:], one):
            contact.param_new(type_1=first, type_2=second, energy=float(contacts["J"][one, other]))
    boundary_y, boundary_x = (TARGETS["cc3d"].boundary_words[boundary] for boundary in meta.boundary)
    width = round(volumes["target"][1:].mean() ** 0.5)
    tissue = BlobInitializer()
    tissue.region_new(width=width, radius=3 * width, center=(50, 50, 0), cell_types=names[1:])
    specs = [
        Metadata(num_processors=1),
        PottsCore(
            dim_x=100,
            dim_y=100,
            steps=steps,
            neighbor_order=meta.geometry.moore_order,
            fluctuation_amplitude=own.temperature,
            boundary_x=boundary_x,
            boundary_y=boundary_y,
        ),
        CellTypePlugin(*names[1:]),
        volume,
        contact,
        tissue,
    ]

    simulation = CC3DSimService()
    simulation.register_specs(specs)
    learned = partial(NeuralHamiltonianSteppable, model=model, extinction=meta.extinction, log_every=50)
    simulation.register_steppable(steppable=learned, frequency=1)
    try:
        simulation.run()
        simulation.init()
        simulation.start()
        for _ in range(steps):
            simulation.step()
        simulation.finish()
    finally:
        # Without this CompuCell3D 4.8 crashes when Python ends, after all work is done or a model was refused.
        simulator = CompuCellSetup.persistent_globals.simulator
        if simulator is not None:
            simulator.cleanAfterSimulation()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("No model was given: name a model.onnx or pretrained:NAME, and how many steps to make.")
    try:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200)
    except UserError as error:
        sys.exit(f"Error: {error}")
