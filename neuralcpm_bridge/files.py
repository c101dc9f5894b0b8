"""Files of strangers and of our own: what they may claim to hold, and writing so that nothing is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UserError

MOST_COMPRESSED = 2000
"""Times a file's bytes that may come out of it: deflate, the tightest of what is read here but for LZW, ends at 1032,
LZW at some 1400."""


def check_claim(claimed: int, stored: int, what: str) -> None:
    """Refuse what no file of `stored` bytes can hold, before memory is asked for it: a broken header, or a trap."""
    if claimed > MOST_COMPRESSED * stored:
        raise UserError(
            f"{what} is said to have {claimed:,} bytes, but {stored:,} bytes of a file cannot hold as many: it is "
            "damaged, save it again."
        )


def check_folder(folder: str | Path) -> None:
    """Refuse what can be no folder to write into, before anything is computed for it."""
    folder = Path(folder)
    found = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not found.is_dir():
        raise UserError(f"{found} is a file, but a folder is to be written: choose another name.")
    if not os.access(found, os.W_OK | os.X_OK):
        raise UserError(f"{found} must not be written to: choose another place.")


def check_file(file: str | Path) -> None:
    """The same of a file."""
    file = Path(file)
    if file.is_dir():
        raise UserError(f"{file} is a folder, but a file is to be written: give a file name.")
    check_folder(file.parent)


@contextmanager
def writing(target: str | Path) -> Iterator[Path]:
    """A temporary path that becomes `target` when the block ends well, and vanishes when it does not."""
    target = Path(target)
    check_file(target)
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


@contextmanager
def disk_speaking(place: str | Path) -> Iterator[None]:
    """What a disk refuses within the block, in one sentence about this place."""
    try:
        yield
    except OSError as error:
        reason: object = error.strerror or error
        if isinstance(error, shutil.Error):  # of a whole folder: file by file
            reason = error.args[0][0][2] if error.args and error.args[0] else error
        where = error.filename or place
        raise UserError(f"{where} cannot be used ({reason}): free space, or choose another place.") from None


class Growing:
    """Saves something that grows while it grows, spending no more than a tenth of the time on it.

    Whoever is killed has what was saved last; the end saves all, whatever it takes.
    """

    def __init__(self, save: Callable[[], None], say: Callable[[str], None]) -> None:
        self._save, self._say = save, say
        self._due = 0.0
        self._failed = False

    def grown(self) -> None:
        """There is more than before: save it, if it is time."""
        began = time.monotonic()
        if began < self._due:
            return
        try:
            self._save()
        except UserError as error:  # there may be room again before the end
            if not self._failed:
                self._say(str(error))
            self._failed = True
        ended = time.monotonic()
        self._due = ended + 9 * (ended - began)
