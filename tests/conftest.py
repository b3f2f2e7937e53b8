"""How hard the property tests look.

`make test` tries the same examples every time, so that what passed passes again on a clean clone. `make search` tries
others, many more, every time: what it finds becomes an `@example`, or a test of its own.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("SGLSPEC_PROPERTIES", "same"))
