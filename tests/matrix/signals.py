"""Scenes that are played with KILL and with TERM."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from inspect import Parameter, Signature, signature
from signal import SIGKILL, SIGTERM, Signals
from typing import Any

from tests.seat.stage import Stage

Scene = Callable[..., None]


def with_each_signal(scene: Scene) -> Scene:
    """A test that plays `scene(stage, number=…, …)` with both at the same time, for what takes long in it is waiting.

    The other parameters are the test's own.
    """

    def test(stages: Callable[[], Stage], **given: Any) -> None:
        numbers = (SIGKILL, SIGTERM)
        with ThreadPoolExecutor(len(numbers)) as pool:
            played = [pool.submit(scene, stages(), number=number, **given) for number in numbers]
        failed = [(number, error) for number, act in zip(numbers, played, strict=True) if (error := act.exception())]
        for number, error in failed:
            error.add_note(f"with {Signals(number).name}")
        if failed:
            raise failed[0][1]

    own = [each for name, each in signature(scene).parameters.items() if name not in ("stage", "number")]
    test.__name__, test.__doc__ = scene.__name__, scene.__doc__
    test.__signature__ = Signature([Parameter("stages", Parameter.POSITIONAL_OR_KEYWORD), *own])  # type: ignore[attr-defined]
    return test
