"""`python -m ticdc_bridge`."""

from ticdc_bridge.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
