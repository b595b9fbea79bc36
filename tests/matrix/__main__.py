"""`python -m tests.matrix` writes what is made in docs/: tables of reference.md, agreement in registry.md, figures."""

from benchmarks import page
from tests.matrix import compatibility_page
from tests.matrix.parts import PARTS

for name, section in PARTS.items():
    name.write(section())
compatibility_page.write()
page.write_figures()
