"""Updates for sessions whose id we do not know yet: kept until `session/new` is answered, in bounds (C-43)."""

from typing import Generic, TypeVar

# copilot sends one; a loop of a broken agent must not fill memory
EARLY_UPDATES = 1_000
EARLY_BYTES = 8 * 1024 * 1024

T = TypeVar("T")


class Early(Generic[T]):
    def __init__(self) -> None:
        self._kept: list[tuple[str, int, T]] = []
        self._bytes = 0

    def keep(self, session_id: str, size: int, update: T) -> bool:
        """Whether there was room; `size` is in bytes."""
        if len(self._kept) >= EARLY_UPDATES or self._bytes + size > EARLY_BYTES:
            return False
        self._kept.append((session_id, size, update))
        self._bytes += size
        return True

    def take(self, session_id: str) -> list[T]:
        """Those of one session, in their order; they are not kept any longer."""
        taken = [update for owner, _, update in self._kept if owner == session_id]
        self._kept = [entry for entry in self._kept if entry[0] != session_id]
        self._bytes = sum(size for _, size, _ in self._kept)
        return taken
