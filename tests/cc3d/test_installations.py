"""Finding CompuCell3D's Pythons, looking into them and putting the package there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cc3d_steppables import installations
from cc3d_steppables.installations import INTERPRETER, inspected, installed, interpreters
from neuralcpm_bridge import __version__
from neuralcpm_bridge.errors import UserError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins for a Python are shell scripts")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with nothing installed."""
    for name in (INTERPRETER, "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "Jörg Müller"))
    (tmp_path / "Jörg Müller").mkdir()
    monkeypatch.setattr(installations, "_installer_parents", lambda home: [home])
    return tmp_path / "Jörg Müller"


def stand_in(prefix: Path, script: str = "exit 1", cc3d: bool = True) -> Path:
    """A Python environment with a folder cc3d, whose Python is a shell script."""
    if cc3d:
        (prefix / "lib" / "python3.12" / "site-packages" / "cc3d").mkdir(parents=True)
    program = prefix / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def answer(cc3d: str | None = "4.8.0", bridge: str | None = None, trouble: str = "") -> str:
    words = json.dumps({"python": "3.12.1", "cc3d": cc3d, "bridge": bridge, "trouble": trouble})
    return f"echo chatter; echo 'neuralcpm{words}'"


def test_nothing_is_found_where_nothing_is(home: Path, refused) -> None:  # type: ignore[no-untyped-def]
    stand_in(home / "miniconda3" / "envs" / "other", cc3d=False)
    assert interpreters() == []
    assert INTERPRETER in refused("cc3d", "setup")


def test_the_usual_places(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = stand_in(home / "elsewhere")
    listed = stand_in(home / "my envs" / "cc3d")
    environment = stand_in(home / "miniforge3" / "envs" / "cc3d_470")
    bundled = stand_in(home / "CompuCell3D-4.7.0" / "Miniconda3")
    monkeypatch.setenv(INTERPRETER, str(named))
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{home / 'gone'}\n{listed.parents[1]}\n", encoding="utf-8")
    monkeypatch.setenv("CONDA_PREFIX", str(listed.parents[1]))  # twice known, once found
    assert interpreters() == [named, listed, environment, bundled]


def test_what_a_python_says(tmp_path: Path) -> None:
    assert not inspected(stand_in(tmp_path / "1", answer())).ready
    assert "is without neuralcpm-bridge" in inspected(stand_in(tmp_path / "2", answer())).sentence()
    ready = inspected(stand_in(tmp_path / "3", answer(bridge=__version__)))
    assert ready.ready
    assert f"CompuCell3D 4.8.0 (Python 3.12.1) at {tmp_path}" in ready.sentence()
    older = inspected(stand_in(tmp_path / "4", answer(bridge="0.1.0")))
    assert not older.ready
    assert f"here is {__version__}" in older.sentence()
    broken = inspected(stand_in(tmp_path / "5", answer(bridge=__version__, trouble="ImportError: DLL")))
    assert not broken.ready
    assert "ImportError: DLL" in broken.sentence()
    assert "does not import cc3d" in inspected(stand_in(tmp_path / "6", answer(cc3d=None))).sentence()


def test_what_is_no_python(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file"):
        inspected(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"does not run as a Python \(why\)"):
        inspected(stand_in(tmp_path / "mute", "echo why >&2; exit 3"))


def test_pip_is_that_pythons_own_and_takes_wheels_only(tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    """The stand-in has the package once its pip was called."""
    asked, done = tmp_path / "asked", tmp_path / "done"
    script = f"""
if [ "$1" = -m ]; then echo "$@" > '{asked}'; touch '{done}'; exit 0; fi
if [ -e '{done}' ]; then {answer(bridge=__version__)}; else {answer()}; fi"""
    program = stand_in(tmp_path / "env", script)
    code, out, _ = cli("cc3d", "setup", "--python", program, "--check")
    assert code == 1
    assert "is without neuralcpm-bridge" in out
    assert not asked.exists()
    code, out, err = cli("cc3d", "setup", "--python", program)
    assert code == 0, err
    assert f"Installed neuralcpm-bridge {__version__} (there before: none)" in out
    words = asked.read_text(encoding="utf-8").split()
    assert words[:3] == ["-m", "pip", "install"]
    assert words[-1] == f"neuralcpm-bridge=={__version__}"
    assert words[words.index("--only-binary") + 1] == "neuralcpm-bridge"
    assert cli("cc3d", "setup", "--python", program, "--check")[0] == 0


def test_pip_that_finds_no_wheel(tmp_path: Path) -> None:
    script = f'if [ "$1" = -m ]; then echo "ERROR: No matching distribution" >&2; exit 1; fi\n{answer()}'
    with pytest.raises(UserError, match=r"No matching distribution.*PIP_FIND_LINKS"):
        installed(stand_in(tmp_path / "env", script))


def test_nothing_of_this_python_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setenv("VIRTUAL_ENV", "/ours")
    program = stand_in(tmp_path / "env", f"echo $PYTHONPATH$VIRTUAL_ENV $(pwd) > '{tmp_path / 'seen'}'\n{answer()}")
    monkeypatch.chdir(tmp_path)
    inspected(Path("env/bin/python"))
    assert (tmp_path / "seen").read_text(encoding="utf-8").strip() == str(program.parent)


def test_a_real_python_without_cc3d() -> None:
    found = inspected(Path(sys.executable))
    assert found.cc3d is None
    assert not found.ready
    assert "does not import cc3d" in found.sentence()
