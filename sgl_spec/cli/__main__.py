"""`python -m sgl_spec.cli` is the console script `sgl-spec`."""

import sys

from sgl_spec.cli import main

if __name__ == "__main__":
    sys.exit(main())
