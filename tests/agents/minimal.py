"""Answers `initialize` with the protocol version alone."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

script.serve({"initialize": lambda request: script.answer(request, {"protocolVersion": 1})})
