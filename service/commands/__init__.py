"""The commands of `python -m service`, a file each; `service.cli` lists them."""
