"""TiCDC Canal-JSON (protocol=canal-json), and what Canal itself and others write, read."""
