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
    for written, fix in [
        ("64MB", "write 64MiB"),
        ("64 mib", "write 64MiB"),
        ("8k", "write 8KiB"),
        ("8T", "write a number and its unit: 64MiB"),
        ("2GB", "write a number and its unit: 64MiB"),
        ("2GiB", "write a number and its unit: 64MiB"),
        ("9" * 5000, "write a number and its unit: 64MiB"),
        (10**300, "write a number and its unit: 64MiB"),
        ("4096\n", "write a number and its unit: 64MiB"),
        (4095, "write a number and its unit: 64MiB"),
        (8192.0, "write a number and its unit: 64MiB"),
        (True, "write a number and its unit: 64MiB"),
        (None, "write a number and its unit: 64MiB"),
    ]:
        with pytest.raises(ValidationError) as caught:
            SIZE.validate_python(written)
        (error,) = caught.value.errors()
        assert (error["type"], error["ctx"]) == ("bad_size", {"fix": fix})
