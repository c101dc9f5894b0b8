"""What a project's CC3DML says, as far as a learned term must know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lxml import etree

from neuralcpm_bridge.errors import UserError

MEDIUM = "Medium"
AMPLITUDES: dict[str, Callable[[float, float], float]] = {
    "Min": min,
    "Max": max,
    "ArithmeticAverage": lambda one, other: (one + other) / 2,
}
"""How CC3D makes one fluctuation amplitude of two cells'; the medium has none and no say."""


@dataclass(frozen=True)
class Facts:
    """The settings of one project; energies and temperatures as CC3D has them."""

    shape: tuple[int, int]
    """Rows (y) and columns (x)."""
    depth: int
    lattice: str
    periodic: tuple[bool, bool]
    """Whether rows (y) and columns (x) wrap."""
    potts_nodes: int
    temperature: float
    acceptance: str
    amplitude_function: str
    type_names: dict[int, str]
    plugins: tuple[str, ...]
    contact: dict[frozenset[str], float] = field(default_factory=dict)
    contact_order: int = 1
    volume: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Strength λ and target volume V* of a type."""


def read_facts(root: etree._Element) -> Facts:
    """The facts of a `<CompuCell3D>` element."""
    potts = root.find("Potts")
    if potts is None:
        raise UserError("The project's CC3DML has no <Potts> element: a lattice is needed, add it.")
    size = potts.find("Dimensions")
    if size is None:
        raise UserError("The project's CC3DML has no <Dimensions> element: a lattice is needed, add it.")
    width, height, depth = (int(_number(size.get(axis, "1"), f"Dimensions {axis}")) for axis in "xyz")
    contact, contact_order = _contact(root)
    return Facts(
        shape=(height, width),
        depth=depth,
        lattice=(potts.findtext("LatticeType") or "Square").strip(),
        periodic=(_periodic(potts, "y"), _periodic(potts, "x")),
        potts_nodes=_potts_nodes(root.find("Metadata")),
        temperature=_temperature(potts),
        acceptance=_acceptance(potts),
        amplitude_function=_amplitude_function(potts),
        type_names=_type_names(root),
        plugins=tuple(plugin.get("Name", "") for plugin in root.findall("Plugin")),
        contact=contact,
        contact_order=contact_order,
        volume=_volume(root),
    )


def _periodic(potts: etree._Element, axis: str) -> bool:
    return (potts.findtext(f"Boundary_{axis}") or "").strip().lower() == "periodic"


def _potts_nodes(metadata: etree._Element | None) -> int:
    """Threads of the Potts algorithm; the rest of CC3D may use more."""
    if metadata is None:
        return 1
    if any(module.get("Name") == "Potts" for module in metadata.findall("NonParallelModule")):
        return 1
    for tag in ("NumberOfProcessors", "VirtualProcessingUnits"):
        text = metadata.findtext(tag)
        if text and text.strip():
            return int(_number(text, tag))
    return 1


def _temperature(potts: etree._Element) -> float:
    amplitude = potts.find("FluctuationAmplitude")
    if amplitude is not None and amplitude.find("FluctuationAmplitudeParameters") is None:
        return _number(amplitude.text or "0", "FluctuationAmplitude")
    return _number(potts.findtext("Temperature") or "0", "Temperature")


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
    for kind in root.findall("Plugin[@Name='CellType']/CellType"):
        names[int(_number(kind.get("TypeId", ""), "TypeId"))] = kind.get("TypeName", "")
    return names


def _contact(root: etree._Element) -> tuple[dict[frozenset[str], float], int]:
    plugin = root.find("Plugin[@Name='Contact']")
    if plugin is None:
        return {}, 1
    energies = {
        frozenset((entry.get("Type1", ""), entry.get("Type2", ""))): _number(entry.text or "0", "Contact Energy")
        for entry in plugin.findall("Energy")
    }
    return energies, int(_number(plugin.findtext("NeighborOrder") or "1", "NeighborOrder"))


def _volume(root: etree._Element) -> dict[str, tuple[float, float]]:
    """By type; nothing where the project's Python sets it cell by cell."""
    plugin = root.find("Plugin[@Name='Volume']")
    if plugin is None:
        return {}
    found = {}
    for entry in plugin.findall("VolumeEnergyParameters"):
        strength, target = entry.get("LambdaVolume"), entry.get("TargetVolume")
        if strength is not None and target is not None:
            found[entry.get("CellType", "")] = (_number(strength, "LambdaVolume"), _number(target, "TargetVolume"))
    strength, target = plugin.findtext("LambdaVolume"), plugin.findtext("TargetVolume")
    if strength and target:  # one setting for every type
        both = (_number(strength, "LambdaVolume"), _number(target, "TargetVolume"))
        found |= {name: both for number, name in _type_names(root).items() if number}
    return found


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        found = text.strip()
        raise UserError(f"{what} in the project's CC3DML is {found!r}, but a number is needed: correct it.") from None
