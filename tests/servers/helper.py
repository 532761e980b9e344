"""What `scrubbed` becomes when it has no environment: argv is the liveness port and the name. It serves nobody."""

import os
import sys

from tests.servers import script

os.environ["LIVENESS"], helper = sys.argv[1:]
script.hello(helper)
script.hang()
