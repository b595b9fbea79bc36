"""`python -m service`."""

import sys

from service import health_check

if __name__ == "__main__":
    if health_check.is_plain(sys.argv[1:]):  # asked every few seconds: without the rest of the command line
        sys.exit(health_check.run(None))
    from service.cli import main

    main()
