"""`python -m tests.matrix` writes the matrix of docs/formats.md anew."""

from tests.matrix.page import write

write()
