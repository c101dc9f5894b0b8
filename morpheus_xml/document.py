"""A user's MorpheusML file: its elements with their places, and edits that leave every other byte as it was."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.importers.safe_xml import read_xml

MAX_DEPTH = 100
"""Deeper nesting is no model; it would only exhaust the stack of whoever walks the tree."""
ENCODINGS = ("utf-8", "us-ascii", "ascii", "iso-8859-1", "latin-1")
"""Encodings in which markup is plain ASCII, so that an edit can be spliced in."""


@dataclass
class Element:
    """One element, with its line and its bytes: `start` to `end`, the content from `inner` to `inner_end`.

    `inner == inner_end == end` for an element without an end tag of its own.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    start: int
    inner: int = 0
    inner_end: int = 0
    end: int = 0
    text: str = ""
    parent: Element | None = field(default=None, repr=False)
    children: list[Element] = field(default_factory=list, repr=False)

    def find(self, path: str) -> Element | None:
        """The first element at a path such as `Space/Lattice`."""
        return next(self.all(path), None)

    def all(self, path: str) -> Iterator[Element]:
        head, _, rest = path.partition("/")
        for child in self.children:
            if child.tag == head:
                yield from child.all(rest) if rest else (child,)

    def walk(self) -> Iterator[Element]:
        """This element and everything below it, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    def where(self) -> str:
        return f"line {self.line}, <{self.tag}>"


@dataclass(frozen=True)
class Edit:
    """Bytes `start` to `end` become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Document:
    """The bytes of a file and the tree they spell."""

    path: Path
    content: bytes
    encoding: str
    root: Element

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """The file with some spans replaced and nothing else touched; edits must not overlap."""
        try:
            return self._spliced(self.content, edits)
        except UnicodeEncodeError as error:
            raise UserError(
                f"{self.path} is encoded in {self.encoding}, which has no {error.object[error.start]!r}: save it as "
                "UTF-8."
            ) from None

    def _spliced(self, content: bytes, edits: Iterable[Edit]) -> bytes:
        for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
            content = content[: edit.start] + edit.text.encode(self.encoding) + content[edit.end :]
        return content

    def source(self, element: Element) -> str:
        return self.content[element.start : element.end].decode(self.encoding)

    def attribute_edit(self, element: Element, name: str, value: str) -> Edit:
        """Sets an attribute, in its place or as the last one."""
        tag = self.content[element.start : element.inner].decode(self.encoding)
        found = re.search(rf"\s{re.escape(name)}\s*=\s*(\"[^\"]*\"|'[^']*')", tag)
        if found:
            before = len(tag[: found.start(1)].encode(self.encoding))
            after = len(tag[: found.end(1)].encode(self.encoding))
            return Edit(element.start + before, element.start + after, quoteattr(value))
        end = element.inner - (2 if tag.endswith("/>") else 1)
        return Edit(end, end, f" {name}={quoteattr(value)}")

    def append_edit(self, element: Element, lines: list[str]) -> Edit:
        """Adds lines behind an element's last child, indented as its children are."""
        outer = self.indentation(element)
        inner = self.indentation(element.children[0]) if element.children else ""
        inner = inner or f"{outer}    "
        text = "".join(f"\n{inner}{line}" for line in lines)
        if element.inner == element.end:  # <tag/> becomes <tag> … </tag>
            return Edit(element.inner - 2, element.end, f">{text}\n{outer}</{element.tag}>")
        if element.children:
            return Edit(element.children[-1].end, element.children[-1].end, text)
        return Edit(element.inner, element.inner_end, f"{text}\n{outer}")

    def removal(self, element: Element) -> Edit:
        """Takes an element out, with its line if it has one to itself."""
        start = element.start
        if self.indentation(element) or self.content[start - 1 : start] == b"\n":
            start = self.content.rfind(b"\n", 0, start)
        return Edit(max(start, 0), element.end, "")

    def indentation(self, element: Element) -> str:
        """The white space that opens an element's line, or nothing where it shares its line with something else."""
        line = self.content[self.content.rfind(b"\n", 0, element.start) + 1 : element.start]
        return line.decode(self.encoding) if not line.strip() else ""


def parse_model(path: str | Path) -> Document:
    """Read an XML file, or a gzipped one, without entities, document types or network."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"There is no file {path}: give the path of a Morpheus model (.xml).")
    return parse_content(path, read_xml(path))


def parse_content(path: Path, content: bytes) -> Document:
    """As `parse_model`, of a text that is no file yet; `path`: what sentences call it."""
    return _Reader(path, content).document()


class _Reader:
    """Follows expat's events; the bytes an event begins and ends at are what lxml does not tell."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content = path, content
        self.encoding = "utf-8"
        self.open: list[Element] = []
        self.root: Element | None = None
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.XmlDeclHandler = self._declaration
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def document(self) -> Document:
        try:
            self.parser.Parse(self.content, True)
        except expat.ExpatError as error:
            raise UserError(
                f"{self.path} is not well-formed XML (line {error.lineno}: {expat.ErrorString(error.code)}): correct "
                "it or save it again from Morpheus."
            ) from None
        assert self.root is not None
        return Document(self.path, self.content, self.encoding, self.root)

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        self.encoding = (encoding or "utf-8").lower()
        if self.encoding not in ENCODINGS:
            raise UserError(f"{self.path} is encoded in {encoding}, but Morpheus reads UTF-8: save it as that.")

    def _doctype(self, *_: object) -> None:
        raise UserError(
            f"{self.path} declares a document type, which is refused for safety (entities): remove the DOCTYPE line."
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise UserError(f"{self.path} nests its elements more than {MAX_DEPTH} deep, as no model does: check it.")
        start = self.parser.CurrentByteIndex
        parent = self.open[-1] if self.open else None
        element = Element(tag, attributes, self.parser.CurrentLineNumber, start, parent=parent)
        element.inner = self._tag_end(start)
        if parent is None:
            self.root = element
        else:
            parent.children.append(element)
        self.open.append(element)

    def _end(self, tag: str) -> None:
        element = self.open.pop()
        if self.content[element.inner - 2 : element.inner] == b"/>":
            element.inner_end = element.end = element.inner
        else:
            element.inner_end = self.parser.CurrentByteIndex
            element.end = self.content.index(b">", element.inner_end) + 1

    def _text(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data

    def _tag_end(self, start: int) -> int:
        """Behind the '>' of a start tag; one inside a quoted value does not count."""
        quote: int | None = None
        for place in range(start, len(self.content)):
            byte = self.content[place]
            if quote is not None:
                quote = None if byte == quote else quote
            elif byte in b"\"'":
                quote = byte
            elif byte == ord(">"):
                return place + 1
        return len(self.content)


def element_text(tag: str, attributes: dict[str, str]) -> str:
    """An element without content, as XML."""
    written = " ".join(f"{key}={quoteattr(value)}" for key, value in attributes.items())
    return f"<{tag} {written}/>"
