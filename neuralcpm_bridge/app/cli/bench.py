"""The verb bench."""

from __future__ import annotations

import json
from typing import Any

from .options import Json


def bench(as_json: Json = False) -> None:
    """Measure ΔH and Metropolis speed on this machine, one thread, in under a minute."""
    from ..bench import run_bench

    if as_json:
        print(json.dumps(run_bench()))
        return
    from rich.console import Console

    with Console().status("measuring, less than a minute …"):
        report = run_bench()
    print_report(report)


def print_report(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("model", "ΔH µs", "p95", "commit µs", "ONNX Runtime full energy", "ratio", "GMAC/s")
    table.title = f"100×100, 50 cells, one thread, {report['isa']}; GEMM {report['gemm_gmac_per_s']:.0f} GMAC/s"
    for name, values in report["delta"].items():
        times = (f"{values[key]:.1f}" for key in ("engine_us", "p95_us", "commit_us"))
        full = f"{values['onnxruntime_us'] / 1000:.1f} ms"
        table.add_row(name, *times, full, f"{values['ratio']:.0f}×", f"{values['gmac_per_s']:.1f}")
    console.print(table)
    scaling = report["scaling"]["local8"]
    console.print(
        f"5,000 cells on 1000×1000: {scaling['cells_5000_us']:.1f} µs, {scaling['ratio']:.2f}× of 50 cells on 100×100"
    )
    for name, values in report["metropolis"].items():
        console.print(f"Metropolis, {name}: {values['attempts_per_s']:,.0f} attempts/s")
    for name, values in report["lattices"].items():
        console.print(f"Metropolis, cellsort, {name} lattice: {values['attempts_per_s']:,.0f} attempts/s")
