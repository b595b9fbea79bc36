"""Craft (protocol=craft of classic TiCDC), read and written (upstream tiflow `pkg/sink/codec/craft`).

primitives  numbers and chunks
layout      messages taken apart and put together
columns     type codes, flags and contents of values
damaged_floats  floats that TiCDC's writer has damaged
decoder     messages → change events;  encoder: change events → messages
"""

from ticdc_bridge.schemas.formats.craft.decoder import CraftDecoder
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder

__all__ = ["CraftDecoder", "CraftEncoder"]
