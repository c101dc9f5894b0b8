"""Writing files so that nothing the user had is lost: to a temporary name beside the target, then moved."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UserError


@contextmanager
def writing(target: str | Path) -> Iterator[Path]:
    """A temporary path that becomes `target` when the block ends well, and vanishes when it does not."""
    target = Path(target)
    if target.is_dir():
        raise UserError(f"{target} is a folder, but a file is to be written: give a file name.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise UserError(f"{target} cannot be written ({error.strerror}): choose another place.") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, target)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{target} cannot be written ({reason}): free space or choose another place.") from None
    finally:
        temporary.unlink(missing_ok=True)
