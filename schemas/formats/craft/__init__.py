"""Craft (protocol=craft of classic TiCDC), read and written (upstream tiflow `pkg/sink/codec/craft`)."""
