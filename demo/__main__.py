"""`python -m demo`: see `demo.story`."""

from __future__ import annotations

import sys

from demo.story import main

if __name__ == "__main__":
    sys.exit(main())
