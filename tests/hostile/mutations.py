"""Bytes changed the way disks, transports and people change them."""

from __future__ import annotations

import random


def mutated(content: bytes, chance: random.Random) -> bytes:
    """One change: a flipped bit, a byte or a run of bytes replaced, cut out, doubled or cut off."""
    at = chance.randrange(max(1, len(content)))
    length = chance.choice((1, 2, 4, 16, 100))
    match chance.randrange(6):
        case 0:
            return content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]
        case 1:
            return content[:at] + chance.randbytes(length) + content[at + length :]
        case 2:
            return content[:at] + content[at + length :]
        case 3:
            return content[: at + length] + content[at:]
        case 4:
            return content[:at]
        case _:
            return content[:at] + chance.choice((b"\x00", b"\xff")) * length + content[at + length :]
