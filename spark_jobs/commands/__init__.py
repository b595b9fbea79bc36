"""The commands of `python -m spark_jobs`, a file each: `add(commands)` gives its grammar, `run(args)` its exit code."""
