"""Craft (protocol=craft of classic TiCDC), read and written (upstream tiflow `pkg/sink/codec/craft`).

primitives  numbers and chunks
layout      messages taken apart and put together
columns     type codes, flags and contents of values
damage      floats that TiCDC's writer has damaged
decoder     messages → change events;  encoder: change events → messages
jit, kernel_*, typed, typed_write  many messages of one table at once
"""

from schemas.wire.craft.decoder import CraftDecoder
from schemas.wire.craft.encoder import CraftEncoder

__all__ = ["CraftDecoder", "CraftEncoder"]
