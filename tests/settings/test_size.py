"""Sizes are read as people write them (ours)."""

import pytest
from pydantic import TypeAdapter, ValidationError

from acp_launch.document.scalars import Size

SIZE = TypeAdapter(Size)


@pytest.mark.parametrize(
    ("written", "size"),
    [("4096", 4096), (4096, 4096), ("4KiB", 4096), ("64MiB", 64 * 1024**2), ("1GiB", 1024**3), (1024**3, 1024**3)],
)
def test_a_size_is_a_number_of_bytes_with_or_without_a_unit(written: object, size: int) -> None:
    assert SIZE.validate_python(written) == size
    assert type(SIZE.validate_python(written)) is Size


def test_anything_else_is_refused_with_what_was_meant() -> None:
    for written in ["64MB", "8T", "2GiB", "9" * 5000, 10**300, "4096\n", 4095, 8192.0, True, None]:
        with pytest.raises(ValidationError) as caught:
            SIZE.validate_python(written)
        (error,) = caught.value.errors()
        assert error["ctx"]["error"].fix == "write a number and its unit: 64MiB"
