"""`python -m tests.matrix` writes what is made in docs/: formats.md (the matrix), types and registry.md (agreement)."""

from tests.matrix import compatibility_page, page, types_page

page.write()
types_page.write()
compatibility_page.write()
