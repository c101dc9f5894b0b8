"""Ways to break a file: bytes, words and numbers, and the insides of containers whose checksums still hold."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random

NUMBERS = (
    *("0", "-1", "1", "2", "-0", "255", "256", "65536", "2147483647", "2147483648", "4294967296", "1000000"),
    *("9223372036854775807", "9223372036854775808", "99999999999999999999", "1e308", "1e999", "-1e999", "1e-320"),
    *("inf", "-inf", "nan", "Infinity", "NaN", "0.5", "-0.5", "1e9", "²", "٣", "0x10", "1_000", "", " ", "1,5", "true"),
    "9" * 400,
    "9" * 5000,
)
WORDS = ("", "\0", "A", "medium", "null", "[]", "{}", "[[1, 2], [3]]", "{", "<", "&lol;", "é", "\ud800", "x" * 70_000)
JSON_VALUES = (
    *(None, True, -1, 0, 1, 1000, 2**31, 2**63, 10**30, 0.5, 1e300, float("inf"), float("nan"), "", "x", "0", []),
    *({}, [[]], [[1, 2], [3]], [1, "a"], {"a": 1}, [0] * 300, "\ud800", "é\0", [[[[[[[[1]]]]]]]]),
)

Mutation = Callable[[bytes, Random], bytes]


# -- bytes and words -----------------------------------------------------------------------------------------------


def bytes_changed(content: bytes, random: Random) -> bytes:
    """Some bytes or whole numbers overwritten."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        if not changed:
            break
        place = random.randrange(len(changed))
        new = random.choice(
            (
                bytes([changed[place] ^ (1 << random.randrange(8))]),
                random.randbytes(1),
                b"\xff\xff\xff\xff",
                b"\0\0\0\0",
                struct.pack("<I", random.choice((1, 2**16, 2**31 - 1, 2**31, random.randrange(2**32)))),
                struct.pack("<Q", random.choice((2**32, 2**40, 2**63 - 1, 2**63))),
            )
        )
        changed[place : place + len(new)] = new
    return bytes(changed)


def rearranged(content: bytes, random: Random) -> bytes:
    """A part cut off, taken out, doubled or put elsewhere."""
    if len(content) < 2:
        return content + random.randbytes(3)
    a, b = sorted(random.randrange(len(content) + 1) for _ in range(2))
    if random.random() < 0.7:
        b = min(b, a + random.choice((1, 2, 8, 64)))
    where = random.randrange(len(content) + 1)
    part = content[a:b]
    return random.choice(
        (
            lambda: content[:where],
            lambda: content[:a] + content[b:],
            lambda: content[:b] + part * random.choice((1, 1, 3, 50)) + content[b:],
            lambda: content[:where] + part + content[where:],
            lambda: content[:where] + random.randbytes(random.choice((1, 4, 100))) + content[where:],
        )
    )()


def numbers_changed(content: bytes, random: Random) -> bytes:
    """Numbers in a text replaced by others, by infinities, by what looks like one."""
    return _replaced(content, rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", NUMBERS, random)


def words_changed(content: bytes, random: Random) -> bytes:
    """Words in a text replaced, also by words of the same text."""
    own = [word.decode(errors="replace") for word in re.findall(rb"\w+", content)[:500]]
    return _replaced(content, rb"[A-Za-z_][\w.]*", (*WORDS, *own), random)


def lines_changed(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    place = random.randrange(len(lines))
    kind = random.randrange(4)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(place, random.choice(lines))
    elif kind == 2:
        random.shuffle(lines)
    else:
        lines[place] = b"\xff\xfe" + lines[place]
    return b"\n".join(lines)


def _replaced(content: bytes, pattern: bytes, values: tuple[str, ...], random: Random) -> bytes:
    found = list(re.finditer(pattern, content))
    for match in sorted(
        random.sample(found, min(len(found), random.choice((1, 1, 1, 2, 5)))), key=lambda m: -m.start()
    ):
        new = random.choice(values).encode("utf-8", "surrogatepass")
        content = content[: match.start()] + new + content[match.end() :]
    return content


TEXT = (numbers_changed, numbers_changed, words_changed, words_changed, lines_changed, bytes_changed, rearranged)


def of_text(content: bytes, random: Random) -> bytes:
    return random.choice(TEXT)(content, random)


def of_binary(content: bytes, random: Random) -> bytes:
    return random.choice((bytes_changed, rearranged))(content, random)


# -- containers ----------------------------------------------------------------------------------------------------


def of_json(content: bytes, random: Random) -> bytes:
    """Values of a JSON text replaced wherever they are, or the text itself broken."""
    if random.random() < 0.3:
        return of_text(content, random)
    tree = json.loads(content)
    for _ in range(random.choice((1, 1, 2))):
        tree = _json_changed(tree, random)
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _json_changed(tree: object, random: Random) -> object:
    """One value somewhere below replaced, removed or doubled."""
    if not isinstance(tree, (dict, list)) or not tree or random.random() < 0.1:
        return random.choice(JSON_VALUES)
    places: list = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    place = random.choice(places)
    kind = random.random()
    if kind < 0.1:
        del tree[place]
    elif kind < 0.15 and isinstance(tree, list):
        tree.append(tree[place])
    elif kind < 0.2 and isinstance(tree, dict):
        tree[random.choice(("x", "", "format", "é"))] = tree[place]
    else:
        tree[place] = _json_changed(tree[place], random)
    return tree


def of_zip(content: bytes, random: Random) -> bytes:
    """One member of an archive broken; the archive itself is whole, with new checksums."""
    if random.random() < 0.3:
        return of_binary(content, random)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(members))
    kind = random.random()
    if kind < 0.1:
        del members[name]
    elif kind < 0.2:
        members[name] = members[random.choice(list(members))]
    else:
        members[name] = _npy_changed(members[name], random)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, inside in members.items():
            archive.writestr(member, inside)
    return written.getvalue()


NPY_HEADERS = (
    (
        rb"'shape': \([^)]*\)",
        (b"()", b"(0,)", b"(1000000000000,)", b"(3, 100000, 100000)", b"(-1,)", b"(1, 1)", b"(2,)"),
    ),
    (rb"'descr': '[^']*'", (b"'<i8'", b"'|O'", b"'<f8'", b"'<U0'", b"'<U1000000'", b"'|b1'", b"'<m8'", b"'|V0'")),
    (rb"'fortran_order': \w+", (b"True", b"1")),
)


def _npy_changed(content: bytes, random: Random) -> bytes:
    """Header or numbers of one array; half of the time the header keeps its length."""
    if random.random() < 0.5:
        return of_binary(content, random)
    pattern, values = random.choice(NPY_HEADERS)
    name = pattern.split(b":")[0]
    new = random.choice(values)
    if name == b"'shape'" and random.random() < 0.5:
        new = b"(" + b", ".join(b"%d" % random.choice((0, 1, 2, 3, 20, 10**5, 10**9)) for _ in range(4)) + b")"
    (length,) = struct.unpack("<H", content[8:10])
    header = re.sub(pattern, lambda _: name + b": " + new, content[10 : 10 + length]).rstrip()
    room = max(length, len(header) + 1)
    return content[:8] + struct.pack("<H", room) + header.ljust(room - 1) + b"\n" + content[10 + length :]


def of_onnx(content: bytes, random: Random) -> bytes:
    """The metadata or the graph of a model file, behind a hash of the weights that still holds; or its bytes."""
    import onnx

    if random.random() < 0.25:
        return of_binary(content, random)
    model = onnx.load_from_string(content)
    del model.metadata_props[1:]  # the seal, behind which no reader would get to see the rest
    entry = next(entry for entry in model.metadata_props if entry.key == "neuralcpm")
    if random.random() < 0.7:
        entry.value = of_json(entry.value.encode(), random).decode("utf-8", "replace")
        return model.SerializeToString()
    if random.random() < 0.3:  # bytes that are no UTF-8, which the library does not let in by itself
        mark = b"neuralcpm-bridge" if b"neuralcpm-bridge" in content else b'"types"'
        return content.replace(mark, b"\xff" * len(mark), 1)
    nodes = model.graph.node
    if nodes:
        chosen = random.choice(nodes)
        kind = random.randrange(3)
        if kind == 0:
            nodes.remove(chosen)
        elif kind == 1:
            chosen.op_type = random.choice(("Add", "Loop", "Reshape", "NoSuchThing", "MatMul"))
        elif chosen.input:
            chosen.input[random.randrange(len(chosen.input))] = random.choice((*chosen.output, "ids", "types", ""))
    return model.SerializeToString()


def of_gzip(content: bytes, random: Random) -> bytes:
    if random.random() < 0.3:
        return of_binary(content, random)
    return gzip.compress(of_text(gzip.decompress(content), random))


def of_png(content: bytes, random: Random) -> bytes:
    """One chunk broken, with a checksum that holds."""
    if random.random() < 0.3:
        return of_binary(content, random)
    chunks, at = [], 8
    while at + 12 <= len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    place = random.randrange(len(chunks))
    name, inside = chunks[place]
    if name == b"IHDR" and random.random() < 0.5:
        sizes = [random.choice((0, 1, 20, 10**4, 10**5, 2**31 - 1)) for _ in range(2)]
        inside = struct.pack(">II", *sizes) + inside[8:]
    elif name == b"IDAT" and random.random() < 0.5:
        inside = zlib.compress(of_binary(zlib.decompress(inside), random))
    else:
        inside = of_binary(inside, random)
    chunks[place] = (name, inside)
    made = [struct.pack(">I", len(i)) + n + i + struct.pack(">I", zlib.crc32(n + i)) for n, i in chunks]
    return content[:8] + b"".join(made)


def of_tiff(content: bytes, random: Random) -> bytes:
    """One entry of the first directory, or bytes anywhere."""
    if random.random() < 0.4 or content[:4] != b"II*\0":
        return of_binary(content, random)
    (start,) = struct.unpack("<I", content[4:8])
    (count,) = struct.unpack("<H", content[start : start + 2])
    entry = start + 2 + 12 * random.randrange(max(count, 1))
    field = random.randrange(4)  # tag, type, count, value
    value = random.choice((0, 1, 2, 3, 4, 5, 12, 16, 255, 256, 65535, 10**5, 2**31 - 1, 2**32 - 1, len(content)))
    new = struct.pack("<H", value % 2**16) if field < 2 else struct.pack("<I", value)
    at = entry + (0, 2, 4, 8)[field]
    return content[:at] + new + content[at + len(new) :]


def of_safetensors(content: bytes, random: Random) -> bytes:
    """The header of a checkpoint, as long as it says, or bytes anywhere."""
    if random.random() < 0.3:
        return of_binary(content, random)
    (length,) = struct.unpack("<Q", content[:8])
    header, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    own = header.get("__metadata__", {}).get("neuralcpm")
    if own is not None and random.random() < 0.7:
        header["__metadata__"]["neuralcpm"] = of_json(own.encode(), random).decode("utf-8", "replace")
        new = json.dumps(header).encode()
    else:
        new = of_json(json.dumps(header).encode(), random)
    return struct.pack("<Q", len(new)) + new + rest
