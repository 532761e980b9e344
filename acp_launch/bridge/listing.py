"""
What an agent was shown of a server's lists, in few bytes: enough to tell whether another process of the same server
shows the same, and to say how many tools there are. Pages add up (MCP "pagination").
"""

import msgspec
from msgspec import Raw

# method → (member of the result, what to send when it differs)
LISTS = {
    "tools/list": ("tools", "notifications/tools/list_changed"),
    "prompts/list": ("prompts", "notifications/prompts/list_changed"),
    "resources/list": ("resources", "notifications/resources/list_changed"),
    "resources/templates/list": ("resourceTemplates", "notifications/resources/list_changed"),
}
CURSOR = "nextCursor"
PAGES = 1000  # a server whose pages never end is not followed further


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
        from acp_launch.protocol import splice

        self.pages += 1
        page = bytes(result)
        try:
            found = {member.key: member for member in splice.members(page)}
            for start, end in splice.elements(page, found[self._member].start) if self._member in found else ():
                self._hash.update(_canonical(page[start:end]))
                self.count += 1
        except splice.Malformed:
            return None
        following = found.get(CURSOR)
        if following is None or not splice.is_text(page, following.start) or self.pages >= PAGES:
            return None
        return splice.text(page, following.start)

    def same(self, other: "Listing") -> bool:
        return self.count == other.count and self._hash.digest() == other._hash.digest()


def _canonical(item: bytes) -> bytes:
    """The same for two ways to write the same value, a server may order its members anew with every start; but for
    values that only few can read."""
    try:
        return msgspec.json.encode(msgspec.json.decode(item), order="sorted") + b"\n"
    except (msgspec.DecodeError, RecursionError):
        return item + b"\n"
