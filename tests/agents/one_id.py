"""Gives the same id to every session."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

script.serve({"session/new": lambda request: script.answer(request, {"sessionId": "same"})})
