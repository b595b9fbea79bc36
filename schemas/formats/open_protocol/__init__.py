"""TiCDC Open Protocol (protocol=open-protocol), of new TiCDC (`open`) and of the classic one (`open-tiflow`)."""
