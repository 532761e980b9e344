"""A profile's name as a part of a file's name: readable, and the same for no two profiles."""

from urllib.parse import quote

LONGEST = 120  # characters; a file's name has room for 255 bytes


def of_profile(profile: str) -> str:
    text = quote(profile, safe=" ", errors="surrogateescape")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 17]}~{digest(profile)}"


def digest(*words: str) -> str:
    """16 hexadecimal digits that stand for these words."""
    from hashlib import sha256  # loads OpenSSL: not while an agent is being started

    return sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]
