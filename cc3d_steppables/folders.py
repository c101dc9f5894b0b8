"""Writing a folder so that nothing the user had is lost: beside the target, then moved."""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from neuralcpm_bridge.errors import UserError


@contextmanager
def writing_folder(target: str | Path) -> Iterator[Path]:
    """A temporary folder that becomes `target` when the block ends well, and vanishes when it does not.

    A folder that is there already is left alone: its being equal to the new one is fine, anything else refused.
    """
    target = Path(target)
    if target.exists() and not target.is_dir():
        raise UserError(f"{target} is a file, but a folder is to be written: choose another name.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise UserError(f"{target} cannot be written ({error.strerror}): choose another place.") from None
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        if target.is_dir() and any(target.iterdir()):
            if not same_tree(temporary, target):
                raise UserError(f"{target} holds other files already: choose another folder or remove it.")
            return
        if target.is_dir():
            target.rmdir()
        os.replace(temporary, target)
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{target} cannot be written ({why}): free space or choose another place.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def same_tree(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files, byte by byte."""
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    if files != sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file()):
        return False
    return all(filecmp.cmp(one / file, other / file, shallow=False) for file in files)
