"""What TiDB itself refuses, by its error numbers: checks that the tables alone can answer."""
