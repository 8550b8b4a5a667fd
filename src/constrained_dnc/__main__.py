"""`python -m constrained_dnc` is `cdnc`."""

import sys

from constrained_dnc.cli import main

if __name__ == "__main__":
    sys.exit(main())
