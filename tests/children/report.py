"""Prints as JSON what it was given: descriptors, session, group, directory, environment, limits."""

import json
import os
import resource
from pathlib import Path

print(
    json.dumps(
        {
            "descriptors": sorted(int(path.name) for path in list(Path("/proc/self/fd").iterdir()))[:-1],
            "is_leader": os.getpid() == os.getpgrp() == os.getsid(0),
            "cwd": str(Path.cwd()),
            "env": dict(os.environ),
            "blocking": [os.get_blocking(number) for number in range(3)],
            "descriptor_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        }
    )
)
