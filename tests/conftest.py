"""What all tests share."""

from __future__ import annotations

import os

os.environ.setdefault("PORTKIT_NO_CACHE", "1")  # scans keep nothing in the folder of whoever runs the tests
