"""Not an ACP agent: prints its usage and exits 2. argv `stdout` prints it there; `0` exits with 0."""

import sys

USAGE = "usage: helper_cli [-h] COMMAND\n\ncommands:\n  build   build it\n  test    test it\n"
print(USAGE, file=sys.stdout if "stdout" in sys.argv[1:] else sys.stderr)
raise SystemExit(0 if "0" in sys.argv[1:] else 2)
