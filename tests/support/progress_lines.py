"""Lines that long work prints on stderr: whether they come depends on how busy the machine is."""


def without_progress(stderr: str) -> str:
    """What else was printed (spark_jobs.pipeline.progress.tell_slow_work makes such lines)."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.endswith("s so far)\n"))
