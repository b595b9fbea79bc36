"""Functions for numba over flat arrays, and how their code is cached. They know numpy and one another, nothing else."""
