"""
What an agent was shown of a server's lists, in few bytes: enough to tell whether another process of the same server
shows the same, and to say how many tools there are. Pages add up (MCP "pagination").
"""

import msgspec
from msgspec import Raw, Struct, field

# method → (member of the result, what to send when it differs)
LISTS = {
    "tools/list": ("tools", "notifications/tools/list_changed"),
    "prompts/list": ("prompts", "notifications/prompts/list_changed"),
    "resources/list": ("resources", "notifications/resources/list_changed"),
    "resources/templates/list": ("resourceTemplates", "notifications/resources/list_changed"),
}
PAGES = 1000  # a server whose pages never end is not followed further


class _Page(Struct):
    following: str | None = field(default=None, name="nextCursor")


class Listing:
    """One list, fed page by page; two are the same when their `digest` and `count` are."""

    def __init__(self, method: str) -> None:
        from hashlib import blake2b  # loads OpenSSL: not while an agent is being started

        self._member = LISTS[method][0]
        self._hash = blake2b(digest_size=16)
        self.count = 0
        self.pages = 0

    def add(self, result: Raw) -> str | None:
        """Take a page; the cursor of the next one, None at the end."""
        self.pages += 1
        try:
            items = msgspec.json.decode(result, type=dict[str, Raw]).get(self._member, Raw(b"[]"))
            for item in msgspec.json.decode(items, type=list[Raw]):
                self._hash.update(_canonical(item))
                self.count += 1
            cursor = msgspec.json.decode(result, type=_Page).following
        except msgspec.DecodeError:
            return None
        return cursor if self.pages < PAGES else None

    def same(self, other: "Listing") -> bool:
        return self.count == other.count and self._hash.digest() == other._hash.digest()


def _canonical(item: Raw) -> bytes:
    """The same for two ways to write the same value: a server may order its members anew with every start."""
    return msgspec.json.encode(msgspec.json.decode(item), order="sorted") + b"\n"
