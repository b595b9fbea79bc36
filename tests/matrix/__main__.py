"""`python -m tests.matrix` writes what is made in docs/: formats.md (the matrix), types and compatibility.

Also the list of packages in operate.md, as `make audit` does.
"""

from scripts import audit
from tests.matrix import compatibility_page, page, types_page

page.write()
types_page.write()
compatibility_page.write()
audit.write_list()
