"""Not an ACP agent: a prompt without a newline, then it waits for a person; answers each line with another prompt."""

import os
import sys

os.write(1, b"> ")
for _ in sys.stdin.buffer:
    os.write(1, b"I do not understand that.\n> ")
