"""`python -m tests.matrix` writes what is made in docs/: tables of reference.md, agreement in registry.md."""

from tests.matrix import compatibility_page, page, types_page

page.PART.write(page.section())
types_page.PART.write(types_page.section())
compatibility_page.write()
