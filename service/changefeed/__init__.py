"""The settings of a changefeed, as TiCDC reads them from its sink URI and its configuration file."""
