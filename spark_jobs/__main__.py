"""`python -m spark_jobs`."""

from spark_jobs.commands.main import main

if __name__ == "__main__":
    raise SystemExit(main())
