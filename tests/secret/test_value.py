"""A `Secret` never shows itself by accident."""

import copy
import json
import pickle
from collections.abc import Callable

import msgspec
import pytest

from acp_launch.secret.value import Secret

VALUE = "s3cret-value"


def test_it_is_masked_wherever_it_is_shown() -> None:
    secret = Secret(VALUE)
    assert (repr(secret), str(secret), "%s" % secret, repr([secret])) == ("***", "***", "***", "[***]")  # noqa: UP031
    assert secret.expose() == VALUE


@pytest.mark.parametrize(
    "accident",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        json.dumps,
        msgspec.json.encode,
        msgspec.to_builtins,
        hash,
        len,
        iter,
        vars,
        lambda secret: f"{secret}",
        lambda secret: f"{secret:>20}",
        lambda secret: "{}".format(secret),  # noqa: UP032
        lambda secret: "prefix" + secret,
        bytes,
    ],
    ids=lambda accident: getattr(accident, "__qualname__", str(accident)),
)
def test_an_accident_is_refused(accident: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as caught:
        accident(Secret(VALUE))
    assert VALUE not in str(caught.value)


def test_two_of_the_same_text_are_equal_and_equal_to_nothing_else() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret(VALUE + "x")
    assert Secret(VALUE) != VALUE
