"""TiCDC Open Protocol (protocol=open-protocol), of new TiCDC (`open`) and of the classic one (`open-tiflow`)."""

from ticdc_bridge.schemas.formats.open_protocol.decoder import OpenDecoder, OpenTiflowDecoder
from ticdc_bridge.schemas.formats.open_protocol.encoder import OpenEncoder, OpenTiflowEncoder

__all__ = ["OpenDecoder", "OpenEncoder", "OpenTiflowDecoder", "OpenTiflowEncoder"]
