"""
What words tell about a credential: names that announce one, values that are plainly something else, and placeholders.

English only, as the names of variables, headers and options are. Pure.
"""

import re
from collections.abc import Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PASSWORDS = {"password", "passwd", "passphrase", "passcode", "pass", "pwd"}
_NOUNS = {
    **dict.fromkeys(_PASSWORDS, "a password"),
    **dict.fromkeys(("token", "pat", "bearer", "jwt"), "a token"),
    **dict.fromkeys(("apikey", "accesskey", "privatekey", "secretkey", "authkey"), "a key"),
    **dict.fromkeys(("credential", "credentials", "auth", "authorization"), "a credential"),
    "secret": "a secret",
}
_ENDINGS = ("password", "passwd", "token", "apikey", "secret")  # PGPASSWORD, authtoken
_KEYS = _words("api access private secret auth account admin master service signing encryption subscription role")
_LAST = {"cookie", "cookies"}
_ALONE = {"pass", "pwd", "pat"}  # `PWD` is a directory, `pass` a program; `DB_PWD` is a password
# What `TOKEN_FILE`, `SECRET_NAME` or `PUBLIC_API_KEY` holds is none.
_ABOUT = _words(
    "file filename path dir directory url uri endpoint host hostname port domain server address sock socket ttl type"
    " mode method scheme strategy policy provider backend store manager name user username email id ids header prefix"
    " format encoding algorithm alg issuer audience realm region scope scopes expiry expires expiration timeout"
    " lifetime limit budget length size count window interval enabled disabled required optional version command cmd"
    " helper var env project flow grant status check label field usage"
)
_RULES_OUT = _words("public publishable pub max min num no use is has enable disable require allow skip")

_PLAIN = re.compile(
    r"""(?:
      .{0,4}                                             # too short for anybody's secret
    | [-+]?[\d.,:_]{1,7} | \d+(?:\.\d+)?\s?[a-zA-Z]{1,3}   # a number, a time, 30s, 64MiB
    | \d{4}-\d\d-\d\d(?:[T ][\d:.+Z-]*)?                   # a date
    | (?:~|\.{1,2})?[/\\].* | [A-Za-z]:[/\\].* | file:.*   # a path
    | [\w.@-]+(?:/[\w.@-]+)+\.\w{1,5}                      # a relative one
    | [\w.-]+\.(?:json|ya?ml|toml|txt|env|ini|cfg|conf|pem|key|crt|cer|p12|pfx|pub|sock|db|py|js|sh)
    | [a-z][a-z0-9+.-]*://[^@\s]* | [\w.+-]+@[\w-]+(?:\.[\w-]+)+       # an address
    | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+                        # another variable's name
    | (?:true|false|yes|no|on|off|null|none)
    | [a-z]{1,8} | [A-Z]{1,8} | [A-Z][a-z]{1,8}            # a short word
    | \W*
    )""",
    re.VERBOSE | re.DOTALL,
)
_PHRASE = re.compile(r"[A-Za-z]+[0-9]?(?:[-_ .:][A-Za-z]+[0-9]?)*")
LONGEST = 1000  # characters; nothing longer is a word, a path or a placeholder somebody typed

_MARKS = _words(
    "your my insert enter put add replace replaceme change changeme changeit todo fixme tbd example placeholder dummy"
    " fake redacted removed hidden here goes sample foo bar foobar"
)
_FILLING = _words(
    "me it this that with the a an to from of is token tokens key keys api secret secrets password passwd pass pwd pat"
    " access auth bearer value string id client app bot user personal project account github gitlab openai anthropic"
    " google slack stripe notion linear npm aws azure credential credentials real own actual proj ant v1 in"
)
_BARE = {"token", "secret", "password", "passwd", "key", "apikey", "credentials"}
_FILLER = re.compile(r"[xX]{3,}|\*{3,}|[._-]*\.{3}|…|[-_xX*.…]{3,}")
_FILLED = re.compile(r"x{4}|\*{3}|\.{3}|…|example|placeholder|your|1234567890|0123456789|abcdefghij", re.IGNORECASE)
_BRACKETED = re.compile(r"<[A-Za-z][\w .:-]{0,40}>|\[[A-Za-z][A-Za-z _-]{0,40}\]|\{\{[\w .-]{1,40}\}\}")
_SHELL = re.compile(r"\$[A-Za-z_]\w{0,60}|%[A-Za-z_]\w{0,60}%")


def noun(name: str) -> str:
    """What a variable, header, option or query of this name holds: `a password`; empty when it names no credential."""
    words = [word.lower() for word in _WORD.findall(name[-100:])]
    if not words or words[-1] in _ABOUT or not _RULES_OUT.isdisjoint(words):
        return ""
    return next(filter(None, (_noun(words, index) for index in reversed(range(len(words))))), "")


def _noun(words: Sequence[str], index: int) -> str:
    word = words[index]
    if word == "key":
        return "a key" if index and words[index - 1] in _KEYS else ""
    if word in _ALONE and len(words) == 1:
        return ""
    if word in _LAST:  # COOKIE_POLICY is none
        return "a cookie" if index == len(words) - 1 else ""
    ending = next((ending for ending in _ENDINGS if word.endswith(ending)), "")
    return _NOUNS.get(word) or _NOUNS.get(ending, "")


def is_plain(literal: str, what: str) -> bool:
    """Whether this is no credential, whatever its name says: a path, a number, a word. `what` is its name's noun."""
    if len(literal) > LONGEST:
        return False
    if _PLAIN.fullmatch(literal):
        return True
    return what == "a credential" and _PHRASE.fullmatch(literal) is not None  # AUTH: client-credentials


def is_placeholder(literal: str) -> bool:
    """Whether this only holds a credential's place. Made of common words and filling, so it can be shown."""
    if len(literal) > LONGEST:
        return False
    if any(pattern.fullmatch(literal) for pattern in (_FILLER, _BRACKETED, _SHELL)) or literal.lower() in _BARE:
        return True
    return is_filling(literal)


def is_filling(rest: str) -> bool:
    """The same for what follows the beginning of a known shape: `xxxx` after `ghp_`, `your-key` after `sk-`."""
    if len(rest) > LONGEST:
        return False
    words = [word.lower() for word in re.findall(r"[A-Za-z0-9]+", rest)]
    marked = [word for word in words if word in _MARKS or re.fullmatch("x{3,}", word)]
    return bool(_FILLER.fullmatch(rest)) or (bool(marked) and set(words) <= _MARKS | _FILLING | set(marked))


def is_filled(body: str) -> bool:
    """Whether text of a credential's shape was made up: `xxxx…`, `AKIAIOSFODNN7EXAMPLE`."""
    return len(set(body)) <= 3 or _FILLED.search(body) is not None
