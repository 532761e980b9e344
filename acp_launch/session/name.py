"""A name for a session that nobody named."""

import os
import time


def fresh_name() -> str:
    """Sorts by time, and two runs in one second differ."""
    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(2).hex()
