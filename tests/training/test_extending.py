"""The walk-through of docs/extending.md is code that works: its term is declared, computed and exported as printed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..documents import ROOT, blocks

DOCUMENT = ROOT / "docs" / "extending.md"
ENGINE = ROOT / "neuralcpm_bridge" / "engine" / "src"
FILES = (
    "neuralcpm_bridge/terms.py",
    "training/hamiltonians/terms.py",
    "neuralcpm_bridge/engine/src/terms/wetting.cpp",
    "neuralcpm_bridge/engine/src/terms.cpp",
)

# The declaration is a row of the list and the class a part of its module: run there as if they had been written there,
# with the external potential behind them as the order of the energy has it.
CHECK = """
import sys
import neuralcpm_bridge.terms as declarations
import training.hamiltonians.terms as module
declaration, printed = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
(spec,) = eval(f"({declaration})", vars(declarations))
last = module.TERMS.pop("external")
exec("from __future__ import annotations\\n" + printed, vars(module))
module.TERMS["external"] = last
declarations.TERMS[spec.name] = spec
declarations.TERMS["external"] = declarations.TERMS.pop("external")
from hypothesis import given, settings
from tests.training.test_terms import *
test_training_and_runtime_declare_the_same_terms()

@given(worlds())
@settings(max_examples=8, deadline=None, database=None)
def agrees(world):
    rng = world.rng
    states = [compact_state(world.lattice, rng) for _ in range(2)]
    hamiltonian = random_hamiltonian(world, "contact", "wetting")
    ids, types = batch_states(states)
    with torch.no_grad():
        truth = hamiltonian(ids, types).symbolic.numpy()
    served = session_of(hamiltonian).run(["symbolic"], {"ids": ids.numpy(), "types": types.numpy()})[0]
    np.testing.assert_allclose(served, truth, rtol=1e-10, atol=1e-9)
    assert len(np.unique(truth)) == 2

agrees()
"""


def printed(language: str) -> list[str]:
    return [content for name, content in blocks(DOCUMENT.read_text(encoding="utf-8")) if name == language]


def test_it_names_the_files_it_touches_and_they_are_four() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").partition("## An architecture")[0]
    for name in FILES:
        assert f"`{name}`" in section
        assert (ROOT / name).exists() or name.endswith("wetting.cpp")


def test_its_python_declares_computes_and_exports_a_term(tmp_path: Path) -> None:
    files = []
    for number, block in enumerate(printed("py")):
        files.append(tmp_path / f"{number}.py")
        files[-1].write_text(block, encoding="utf-8")
    assert len(files) == 2
    done = subprocess.run([sys.executable, "-c", CHECK, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_its_c_plus_plus_is_accepted_by_the_compiler(tmp_path: Path) -> None:
    term, row = printed("cpp")
    (tmp_path / "wetting.cpp").write_text(term, encoding="utf-8")
    (tmp_path / "terms.cpp").write_text(
        f'#include "term.hpp"\nnamespace ncpm {{\n{row}\nconst char* name() {{ return kWettingTerm.name; }}\n}}\n',
        encoding="utf-8",
    )
    for name in ("wetting.cpp", "terms.cpp"):
        command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ENGINE}", name]
        subprocess.run(command, cwd=tmp_path, check=True)
