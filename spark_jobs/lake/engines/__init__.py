"""Engines that write tables of the lake: one module an engine, all by the protocol in `base`."""
