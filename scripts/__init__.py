"""Set-up of a working copy; standard library only."""
