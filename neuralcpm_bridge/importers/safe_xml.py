"""XML from strangers: no entities, no document types, no network, bounded size."""

from __future__ import annotations

import gzip
from pathlib import Path

from lxml import etree

from ..errors import UserError, reading, reason

MAX_BYTES = 256 * 1024 * 1024
MOST_COMPRESSED = 200
"""Times its own bytes that a gzipped text may have: lists of sites shrink tenfold."""


def parse_xml(path: Path) -> etree._Element:
    """The root element of an XML file (or a gzipped one, as Morpheus saves its checkpoints)."""
    return parse_bytes(read_xml(path))


def read_xml(path: Path) -> bytes:
    """The text of such a file."""
    zipped = path.suffix == ".gz"
    with reading("The file", "readable"):
        most = min(MAX_BYTES, (1 << 20) + MOST_COMPRESSED * path.stat().st_size) if zipped else MAX_BYTES
        with gzip.open(path) if zipped else path.open("rb") as stream:
            content = stream.read(most + 1)
    if len(content) > most:
        raise UserError(f"The XML is larger than {most >> 20} MiB, which no lattice needs: check the file.")
    return content


def parse_bytes(content: bytes, subject: str | Path = "The file", advice: str = "save it again") -> etree._Element:
    """The root element of an XML text; `subject` begins the sentence where it is refused."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise UserError(f"{subject} is not well-formed XML ({reason(error)}): {advice}.") from None
    if root.getroottree().docinfo.doctype:  # type: ignore[union-attr]  # the stubs lack it
        raise UserError(f"{subject} declares a document type, which is refused for safety: remove the DOCTYPE line.")
    return root
