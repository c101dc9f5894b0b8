"""XML from strangers: no entities, no document types, no network, bounded size."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from lxml import etree

from ..errors import UserError

MAX_BYTES = 256 * 1024 * 1024


def parse_xml(path: Path) -> etree._Element:
    """The root element of an XML file (or a gzipped one, as Morpheus saves its checkpoints)."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UserError(f"The XML is larger than {MAX_BYTES >> 20} MiB, which no lattice needs: check the file.")
        root = etree.fromstring(content, parser)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"The file cannot be read ({error}): save it again.") from None
    except (etree.XMLSyntaxError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else "no content"
        raise UserError(f"The file is not well-formed XML ({reason}): save it again.") from None
    if root.getroottree().docinfo.doctype:  # type: ignore[union-attr]  # the stubs lack it
        raise UserError("The XML declares a document type, which is refused for safety: remove the DOCTYPE line.")
    return root
