"""`python -m tests.matrix` writes what is made in docs/ anew: formats.md (the matrix), types.md, compatibility.md."""

from tests.matrix import compatibility_page, page, types_page

page.write()
types_page.write()
compatibility_page.write()
