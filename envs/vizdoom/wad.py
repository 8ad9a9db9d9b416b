"""Doom's archives: lumps of bytes under names of eight letters, and the map text in one of them."""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HEADER = struct.Struct("<4sii")  # kind, number of lumps, where the directory is
ENTRY = struct.Struct("<ii8s")  # where a lump is, its size, its name

MAP_SPOT = 9001
"""The type of a thing that marks a place."""

_BLOCK = re.compile(r"(\w+)\s*(?://[^\n]*)?\s*\{([^}]*)\}")
_FIELD = re.compile(r"(\w+)\s*=\s*([^;]+);")


@dataclass(frozen=True)
class Lump:
    """One file of an archive."""

    name: str
    content: bytes


def read_wad(path: Path) -> list[Lump]:
    """The lumps of an archive, in order."""
    content = path.read_bytes()
    try:
        kind, count, directory = HEADER.unpack_from(content)
        if kind not in (b"PWAD", b"IWAD"):
            raise ValueError(f"it begins with {kind!r}")
        lumps = []
        for number in range(count):
            start, size, name = ENTRY.unpack_from(content, directory + number * ENTRY.size)
            if start < 0 or size < 0 or start + size > len(content):
                raise ValueError(f"lump {number} lies outside of the file")
            text = name.rstrip(b"\0").decode("ascii")
            lumps.append(Lump(text, content[start : start + size]))
    except (struct.error, ValueError) as error:
        raise ValueError(f"{path} is no WAD: {error}") from error
    return lumps


def write_wad(path: Path, lumps: Sequence[Lump]) -> None:
    """Write lumps as an archive that adds to the game's own."""
    start, entries = HEADER.size, []
    for lump in lumps:
        entries.append(ENTRY.pack(start, len(lump.content), lump.name.encode("ascii")))
        start += len(lump.content)
    header = HEADER.pack(b"PWAD", len(lumps), start)
    path.write_bytes(b"".join([header, *(lump.content for lump in lumps), *entries]))


def map_text(lumps: Sequence[Lump]) -> str:
    """The first map of an archive as text (UDMF)."""
    for lump in lumps:
        if lump.name == "TEXTMAP":
            return lump.content.decode("utf-8")
    raise ValueError("the WAD has no map as text (TEXTMAP)")


def blocks(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The parts of a map, such as ("vertex", {"x": "128.000", "y": "0.000"}), in order."""
    for kind, body in _BLOCK.findall(text):
        yield kind, dict(_FIELD.findall(body))


def with_spots_at(text: str, x: float, y: float) -> str:
    """The map with all its map spots moved to one place."""

    def moved(block: re.Match[str]) -> str:
        whole, fields = block[0], dict(_FIELD.findall(block[2]))
        if block[1] != "thing" or int(fields["type"]) != MAP_SPOT:
            return whole
        whole = re.sub(r"\bx\s*=[^;]+;", f"x = {x:.3f};", whole)
        return re.sub(r"\by\s*=[^;]+;", f"y = {y:.3f};", whole)

    return _BLOCK.sub(moved, text)
