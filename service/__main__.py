"""`python -m service`, in a checkout: the one command line."""

from ticdc_bridge.cli import main

if __name__ == "__main__":
    raise SystemExit(main(prog="python -m service"))
