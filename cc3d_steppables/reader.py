"""What a project's CC3DML says, as far as a learned term must know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree

from neuralcpm_bridge.artifact import Metadata
from neuralcpm_bridge.conventions import TARGETS, neural_scale, uncarried_terms
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.adapter import Parameter
from neuralcpm_bridge.hosting.facts import AMPLITUDES, Facts
from neuralcpm_bridge.lattice import Lattice

from .document import number
from .energies import PLUGINS, Energies

MEDIUM = "Medium"


@dataclass(frozen=True)
class ProjectFacts(Facts):
    """The settings of one project; energies and temperatures as CC3D has them."""

    potts_nodes: int
    plugins: tuple[str, ...]
    energies: Energies

    @property
    def names(self) -> list[str]:
        """Of the types in the order of their numbers, Medium first."""
        return [self.type_names[number] for number in sorted(self.type_names)]

    def parameters(self, metadata: Metadata, type_of: Mapping[int, int], temperature: float) -> list[Parameter]:
        """A model's own numbers in CC3D's units at a temperature, beside the project's; none where it has none."""
        if metadata.symbolic is None or uncarried_terms(metadata, TARGETS["cc3d"]) or temperature <= 0:
            return []
        types = {self.type_names[number]: cell_type for number, cell_type in sorted(type_of.items()) if cell_type >= 0}
        learned = Energies.of_model(metadata, types, neural_scale(metadata, temperature))
        rows = []
        for term in learned.terms:
            absent = "set per cell" if {*PLUGINS[term]} & {*self.plugins} else "–"
            own = self.energies.numbers(term, list(types))
            for name, value in learned.numbers(term, list(types)).items():
                rows.append((name, f"{value:.4g}", f"{own[name]:g}" if name in own else absent))
        return rows


def read_facts(root: etree._Element) -> ProjectFacts:
    """The facts of a `<CompuCell3D>` element."""
    potts = root.find("Potts")
    if potts is None:
        raise UserError("The project's CC3DML has no <Potts> element: a lattice is needed, add it.")
    lattice, type_names = read_lattice(potts), _type_names(root)
    names = [type_names[number] for number in sorted(type_names)]
    return ProjectFacts(
        lattice=lattice,
        type_names=type_names,
        temperature=_temperature(potts),
        acceptance=_acceptance(potts),
        amplitude_function=_amplitude_function(potts),
        potts_nodes=_potts_nodes(root.find("Metadata")),
        plugins=tuple(plugin.get("Name", "") for plugin in root.findall("Plugin")),
        energies=Energies.read(root, names, lattice.geometry),
    )


def read_lattice(potts: etree._Element) -> Lattice:
    """Dimensions, LatticeType and Boundary_x, _y, _z; z = 1 is a 2D lattice, [row = y, col = x]."""
    size = potts.find("Dimensions")
    if size is None:
        raise UserError("The project's CC3DML has no <Dimensions> element: a lattice is needed, add it.")
    sides = {axis: int(number(size.get(axis, "1"), f"Dimensions {axis}")) for axis in "zyx"}
    hexagonal = _word(potts, "LatticeType").lower() == "hexagonal"  # everything else is square to CC3D
    axes = "yx" if sides["z"] == 1 else "zyx"
    if len(axes) == 3 and hexagonal:
        raise UserError(
            "The lattice is hexagonal in 3D, but learned terms serve hexagonal lattices in 2D and cubic ones in 3D: "
            "use z = 1, or remove LatticeType."
        )
    if len(axes) == 3 and min(sides["y"], sides["x"]) == 1:
        flat = "y" if sides["y"] == 1 else "x"
        raise UserError(
            f"The lattice is flat in {flat}, but a 2D lattice is one with z = 1: lay it into the plane of x and y."
        )
    boundary = [TARGETS["cc3d"].boundary_named(potts.findtext(f"Boundary_{axis}") or "") for axis in axes]
    geometry = "hexagonal" if hexagonal else "square" if len(axes) == 2 else "cubic"
    return Lattice.of([sides[axis] for axis in axes], geometry, boundary, "rows" if hexagonal else "axes")


def _word(potts: etree._Element, tag: str) -> str:
    """A word as CC3D compares it: blank lines around it do not count, blanks beside it do."""
    return "".join(line for line in (potts.findtext(tag) or "").splitlines() if line.strip())


def _potts_nodes(metadata: etree._Element | None) -> int:
    """Threads of the Potts algorithm; the rest of CC3D may use more."""
    if metadata is None:
        return 1
    if any(module.get("Name") == "Potts" for module in metadata.findall("NonParallelModule")):
        return 1
    for tag in ("NumberOfProcessors", "VirtualProcessingUnits"):
        text = metadata.findtext(tag)
        if text and text.strip():
            return int(number(text, tag))
    return 1


def _temperature(potts: etree._Element) -> float:
    amplitude = potts.find("FluctuationAmplitude")
    if amplitude is not None and amplitude.find("FluctuationAmplitudeParameters") is None:
        return number(amplitude.text or "0", "FluctuationAmplitude")
    return number(potts.findtext("Temperature") or "0", "Temperature")


def _amplitude_function(potts: etree._Element) -> str:
    name = (potts.findtext("FluctuationAmplitudeFunctionName") or "Min").strip()
    if name not in AMPLITUDES:
        raise UserError(f"FluctuationAmplitudeFunctionName is {name}, but {', '.join(AMPLITUDES)} exist: choose one.")
    return name


def _acceptance(potts: etree._Element) -> str:
    if potts.find("CustomAcceptanceFunction") is not None:
        return "custom"
    return (potts.findtext("AcceptanceFunctionName") or "Default").strip()


def _type_names(root: etree._Element) -> dict[int, str]:
    names = {0: MEDIUM}
    for entry in root.findall("Plugin[@Name='CellType']/CellType"):
        names[int(number(entry.get("TypeId", ""), "TypeId"))] = entry.get("TypeName", "")
    return names
