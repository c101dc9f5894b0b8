"""Commands and Python blocks of README.md and docs/*.md, as a reader would copy them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")])
SHELLS = ("", "sh", "bash", "shell", "console")
PROGRAMS = ("neuralcpm ", "make ")
OPERATORS = (">", "|", "&&", ";")


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of fenced blocks, and of indented ones as language ""."""
    found: list[tuple[str, str]] = []
    indented: list[str] = []
    fence: list[str] | None = None
    language = ""
    for line in [*text.splitlines(), ""]:
        mark = re.match(r"\s*```(\w*)", line)
        if mark and fence is None:
            fence, language = [], mark.group(1)
        elif mark and fence is not None:
            found.append((language, "\n".join(fence)))
            fence = None
        elif fence is not None:
            fence.append(line)
        elif line.startswith("    "):
            indented.append(line[4:])
        elif indented:
            found.append(("", "\n".join(indented)))
            indented = []
    return found


def commands(document: Path) -> list[str]:
    """The lines that start with one of our programs, continued ones joined, prompts and comments taken off."""
    found = []
    for language, content in blocks(document.read_text(encoding="utf-8")):
        if language in SHELLS:
            for line in re.sub(r"\\\n\s*", " ", content).splitlines():
                line = line.strip().removeprefix("$ ")
                if line.startswith(PROGRAMS):
                    found.append(" ".join(map(_quoted, shlex.split(line, comments=True))))
    return found


def _quoted(word: str) -> str:
    return word if word in OPERATORS else shlex.quote(word)


def arguments(command: str) -> tuple[list[str], str | None]:
    """The words of a command behind the program's name, and the file that `>` sends its output to."""
    words = shlex.split(command)[1:]
    end = next((place for place, word in enumerate(words) if word in OPERATORS), len(words))
    return words[:end], words[end + 1] if end < len(words) and words[end] == ">" else None


def python_blocks(document: Path) -> list[str]:
    text = document.read_text(encoding="utf-8")
    return [content for language, content in blocks(text) if language == "python"]
