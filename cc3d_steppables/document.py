"""A user's CC3DML: reading it safely, and small changes that leave every other character as it was."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from lxml import etree

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.importers.safe_xml import parse_bytes


def read_text(path: Path) -> str:
    """A text as it is on disk: line ends and stray bytes survive a round trip through `write_text`."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): check the project.") from None


def write_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def parse(text: str, path: Path) -> etree._Element:
    """The root of an XML text, without entities, document types or network."""
    return parse_bytes(text.encode("utf-8", "surrogateescape"), path, "correct it")


def element_span(text: str, tag: str, attributes: str = "") -> tuple[int, int, int] | None:
    """Where the first element of a tag (with these attributes, a regular expression) begins, where its content
    begins and where the element ends; nothing where there is none."""
    visible = without_comments(text)
    opening = re.search(rf"<{tag}\b(?=[^>]*{attributes})[^>]*>", visible)
    if opening is None:
        return None
    if opening.group().endswith("/>"):
        return opening.start(), opening.end(), opening.end()
    closing = re.compile(rf"</{tag}\s*>").search(visible, opening.end())
    if closing is None:
        return None
    return opening.start(), opening.end(), closing.end()


def set_leaf(text: str, parent: str, tag: str, value: str, path: Path) -> str:
    """Give `<tag>` within `<parent>` a text; it is added as the first child where it is missing."""
    span = element_span(text, parent)
    if span is None:
        raise UserError(f"{path} has no <{parent}> element: add it.")
    _, inside, end = span
    leaf = re.compile(rf"(<{tag}\b[^>]*>)[^<]*(</{tag}\s*>)").search(without_comments(text), inside, end)
    if leaf is not None:
        return text[: leaf.end(1)] + value + text[leaf.start(2) :]
    return add_child(text, parent, f"<{tag}>{value}</{tag}>", path)


def set_attributes(text: str, tag: str, values: Mapping[str, str], path: Path) -> str:
    """Other values for attributes that the first `<tag>` has."""
    span = element_span(text, tag)
    if span is None:
        raise UserError(f"{path} has no <{tag}> element: add it.")
    start, inside, _ = span
    opening = text[start:inside]
    for name, value in values.items():
        opening = re.sub(rf"""(\b{name}\s*=\s*)(["'])[^"']*\2""", rf"\g<1>\g<2>{value}\g<2>", opening)
    return text[:start] + opening + text[inside:]


def add_child(text: str, parent: str, child: str, path: Path) -> str:
    """Put an element on a line of its own right behind the parent's opening tag."""
    span = element_span(text, parent)
    if span is None:
        raise UserError(f"{path} has no <{parent}> element: add it.")
    start, inside, end = span
    line_end, indent = line_style(text, start)
    added = f"{line_end}{indent}   {child}"
    if inside == end:  # <Parent/>
        return f"{text[:inside].rstrip('/> ')}>{added}{line_end}{indent}</{parent}>{text[inside:]}"
    return text[:inside] + added + text[inside:]


def replace_plugin(text: str, name: str, plugin: etree._Element) -> str:
    """Put a plugin in the place of the one of that name, or last in the file."""
    span = element_span(text, "Plugin", f"""Name\\s*=\\s*["']{name}["']""")
    if span is None:
        place = text.rindex("</CompuCell3D")
        line_end, _ = line_style(text, place)
        return f"{text[:place]}   {_indented(plugin, '   ', line_end)}{line_end}{text[place:]}"
    start, _, end = span
    line_end, indent = line_style(text, start)
    return text[:start] + _indented(plugin, indent, line_end) + text[end:]


def line_style(text: str, place: int) -> tuple[str, str]:
    """The line end of a text and the indentation of the line around a place."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return "\r\n" if "\r\n" in text else "\n", line[: len(line) - len(line.lstrip())]


def without_comments(text: str) -> str:
    """The text with comments blanked out, every character in its place."""
    return re.sub(r"<!--.*?-->", lambda found: re.sub(r"[^\r\n]", " ", found.group()), text, flags=re.DOTALL)


def number(text: str, what: str) -> float:
    """A number in a file, or a sentence about what stands in its place."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        shown = text.strip()[:40]
        raise UserError(f"{what} in the project's CC3DML is {shown!r}, but a number is needed: correct it.")
    return found


def leaf(parent: etree._Element, tag: str, text: str) -> None:
    etree.SubElement(parent, tag).text = text


def _indented(element: etree._Element, indent: str, line_end: str) -> str:
    etree.indent(element, "   ")
    return f"{line_end}{indent}".join(etree.tostring(element, encoding="unicode").splitlines())
