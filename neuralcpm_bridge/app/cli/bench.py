"""The verb bench."""

from __future__ import annotations

import json
from typing import Any

from .options import Json


def bench(as_json: Json = False) -> None:
    """Measure ΔH and Metropolis speed on this machine, one thread, in about a minute."""
    from ..bench import run_bench

    if as_json:
        print(json.dumps(run_bench()))
        return
    from rich.console import Console

    with Console(markup=False).status("measuring, about a minute …"):
        report = run_bench()
    print_report(report)


def print_report(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    table = Table("model", "ΔH µs", "p95", "commit µs", "ONNX Runtime full energy", "ratio", "GMAC/s", "local8's ΔH")
    table.title = f"100×100, 50 cells, one thread, {report['isa']}; GEMM {report['gemm_gmac_per_s']:.0f} GMAC/s"
    for name, values in report["delta"].items():
        times = (f"{values[key]:.1f}" for key in ("engine_us", "p95_us", "commit_us"))
        full = f"{values['onnxruntime_us'] / 1000:.1f} ms"
        beside = f"{values['local8_ratio']:.1f}×" if "local8_ratio" in values else ""
        table.add_row(name, *times, full, f"{values['ratio']:.0f}×", f"{values['gmac_per_s']:.1f}", beside)
    console.print(table)
    for line in lines(report):
        console.print(line)


def lines(report: dict[str, Any]) -> list[str]:
    """What is not in the table."""
    found = [
        f"{name}, 5,000 cells on 1000×1000: {values['cells_5000_us']:.1f} µs, {values['ratio']:.2f}× of 50 on 100×100"
        for name, values in report["scaling"].items()
    ]
    for name, values in report["graph_lattices"].items():
        shape = "×".join(map(str, values["shape"]))
        found.append(f"graph1, {name} lattice of {shape}, {values['cells']} cells: {values['engine_us']:.1f} µs")
    committee = report["committee"]
    found.append(
        f"graph1, a committee of {committee['members']}: {committee['committee_us']:.1f} µs, "
        f"{committee['ratio']:.2f}× of one"
    )
    for name, size in report["graph_bytes_per_cell"].items():
        if size is not None:
            found.append(f"{name}, memory: {size:,.0f} bytes per cell")
    for name, values in report["metropolis"].items():
        found.append(f"Metropolis, {name}: {per_second(values)}")
    for name, values in report["lattices"].items():
        found.append(f"Metropolis, cellsort, {name} lattice: {per_second(values)}")
    return found


def per_second(values: dict[str, float]) -> str:
    return f"{values['attempts_per_s']:,.0f} attempts/s, {values['proposals_per_s']:,.0f} proposals/s"
