"""
A package runner that downloads for as long as the test wants; run under a runner's name, as `npx`.

It waits until the fifo in ACP_TEST_DOWNLOAD was opened and closed, if there is one, and then runs the rest of its
command line as its child, as npx and uvx do.
"""

import os
import subprocess
import sys

if fifo := os.environ.get("ACP_TEST_DOWNLOAD"):
    with open(fifo, "rb") as stream:  # noqa: PTH123 - without site there is little to import
        stream.read()
sys.exit(subprocess.call([word for word in sys.argv[1:] if word != "-y"]))
