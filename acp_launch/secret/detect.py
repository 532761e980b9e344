"""
Credentials in text: where a literal looks like one, and how sure that is. Pure; a result never holds the credential.

    certain      the shape of a known issuer, a password in a url, the value after Bearer or Basic in an
                 Authorization header
    likely       its name announces a credential (`noun`), and it is not plainly something else
    random       long and mixed characters without a pattern, whatever the name
    placeholder  stands where a credential belongs, and is not one

A reference `${…}` is not inspected, except for the default in it: that is a literal like any other.
"""

import re
from base64 import urlsafe_b64decode
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from json import loads
from math import log2
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.regex import regex
from acp_launch.secret.value import MASK

# Shapes of credentials from well-known issuers: a distinctive prefix, then an alphabet and a length.
#
# Lengths are those the issuers publish or print today, without an upper limit where they have grown before. A prefix
# that is also a word elsewhere (`sk-`, `npm_`, `hf_`) needs a body strict enough to exclude `sk-learn` and
# `npm_config_cache`. Lookaheads and the header of a JSON web token are bounded, so that hostile text costs linear time.


_ALNUM, _WORD, _HEX = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]"

# (description, prefix, rest); prefix and rest are regular expressions, and the first matching row wins
_ISSUED = (
    ("a GitHub token", "gh[pousr]_", rf"{_ALNUM}{{36,}}"),
    ("a GitHub token", "github_pat_", r"\w{36,}"),
    ("a GitLab token", "gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-", r"[\w.-]{20,}"),
    ("an Anthropic key", "sk-ant-", rf"{_WORD}{{20,}}"),
    ("an OpenRouter key", "sk-or-v1-", rf"{_HEX}{{64}}"),
    ("a Langfuse key", "sk-lf-", r"[0-9a-f-]{36}"),
    ("an OpenAI key", "sk-(?:proj|svcacct|admin|None)-", rf"{_WORD}{{20,}}"),
    ("an OpenAI key", "sk-", rf"(?=[A-Za-z]{{0,60}}[0-9]){_ALNUM}{{32,}}"),
    ("a Google API key", "AIza", rf"{_WORD}{{35}}"),
    ("a Google API key", r"AQ\.", rf"{_WORD}{{40,}}"),
    ("a Google access token", r"ya29\.", rf"{_WORD}{{20,}}"),
    ("a Google client secret", "GOCSPX-", rf"{_WORD}{{28}}"),
    ("an AWS access key", "A(?:KIA|SIA|BIA|CCA)", "[A-Z0-9]{16}"),
    ("a Slack token", "xox[a-eprs](?:[.]xox[a-z])?-", r"(?=[\w%.+/-]{0,60}[0-9])[\w%.+/-]{10,}=*"),
    ("a Slack token", "xapp-", r"(?=[\w-]{0,60}[0-9])[\w-]{20,}"),
    ("a Slack webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/", r"\w+/\w+/\w{20,}(?:/\w+)?"),
    ("a Discord webhook", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/", r"\d{17,20}/[\w-]{60,}"),
    ("a Discord bot token", "[MNO]", r"[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}"),
    ("a Stripe key", "[sr]k_(?:live|test)_", rf"{_ALNUM}{{16,}}"),
    ("a Stripe webhook secret", "whsec_", r"[\w+/]{24,}=*"),
    ("an npm token", "npm_", rf"{_ALNUM}{{36}}"),
    ("a PyPI token", "pypi-AgE", rf"{_WORD}{{50,}}"),
    ("a RubyGems key", "rubygems_", rf"{_HEX}{{48}}"),
    ("a Hugging Face token", "hf_", rf"{_ALNUM}{{30,40}}"),
    ("a Groq key", "gsk_", rf"{_ALNUM}{{40,}}"),
    ("an xAI key", "xai-", rf"{_ALNUM}{{60,}}"),
    ("a Replicate token", "r8_", rf"{_ALNUM}{{30,40}}"),
    ("a Perplexity key", "pplx-", rf"{_ALNUM}{{40,}}"),
    ("an NVIDIA key", "nvapi-", rf"{_WORD}{{50,}}"),
    ("a Tavily key", "tvly-(?:dev-|prod-)?", rf"(?=[A-Za-z]{{0,60}}[0-9]){_WORD}{{20,}}"),
    ("a Firecrawl key", "fc-", rf"{_HEX}{{32}}"),
    ("a Context7 key", "ctx7sk-", r"[0-9a-f-]{36}"),
    ("an ElevenLabs key", "sk_", rf"{_HEX}{{48}}"),
    ("an E2B key", "e2b_", rf"{_HEX}{{40}}"),
    ("a LangSmith key", "lsv2_(?:pt|sk)_", rf"{_HEX}{{32}}_{_HEX}{{10}}"),
    ("a Notion token", "ntn_", rf"{_ALNUM}{{40,}}"),
    ("a Notion token", "secret_", rf"{_ALNUM}{{43}}"),
    ("a Linear key", "lin_(?:api|oauth)_", rf"{_ALNUM}{{32,}}"),
    ("a Figma token", "fig[dur]_", rf"{_WORD}{{36,}}"),
    ("an Airtable token", "pat", rf"{_ALNUM}{{14}}\.{_HEX}{{64}}"),
    ("an Apify token", "apify_api_", rf"{_ALNUM}{{36}}"),
    ("a Supabase key", "sbp_", rf"{_HEX}{{40}}"),
    ("a Supabase key", "sb_secret_", rf"{_WORD}{{20,}}"),
    ("a Neon key", "napi_", r"[a-z0-9]{60,}"),
    ("an Atlassian token", "AT[AC]TT3", rf"{_WORD}{{50,}}=*{_ALNUM}*"),
    ("a SendGrid key", r"SG\.", rf"{_WORD}{{22}}\.{_WORD}{{43}}"),
    ("a Resend key", "re_", rf"{_ALNUM}{{8}}_{_ALNUM}{{24}}"),
    ("a Mailgun key", "key-", rf"{_HEX}{{32}}"),
    ("a Twilio key", "SK", rf"{_HEX}{{32}}"),
    ("a Telegram bot token", r"\d{8,10}:", rf"AA{_WORD}{{33}}"),
    ("a Shopify token", "shp(?:at|ca|pa|ss)_", "[0-9A-Fa-f]{32}"),
    ("a HubSpot token", "pat-(?:na|eu)[0-9]-", r"[0-9a-f-]{36}"),
    ("a Sentry token", "sntrys_", r"[\w+/-]{50,}=*"),
    ("a Sentry token", "sntryu_", rf"{_HEX}{{64}}"),
    ("a Grafana token", "glsa_", rf"{_ALNUM}{{32}}_[0-9A-Fa-f]{{8}}"),
    ("a New Relic key", "NRAK-", rf"{_ALNUM}{{27}}"),
    ("a Postman key", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    ("a PostHog key", "phx_", rf"{_ALNUM}{{40,}}"),
    ("a Databricks token", "dapi", rf"{_HEX}{{32}}(?:-\d)?"),
    ("a DigitalOcean token", "do[opr]_v1_", rf"{_HEX}{{64}}"),
    ("a Docker token", "dckr_[po]at_", rf"{_WORD}{{20,}}"),
    ("a Vault token", r"hv[sb]\.", rf"{_WORD}{{20,}}"),
    ("a Doppler token", r"dp\.(?:pt|st|ct|sa)\.", r"[\w.-]{40,}"),
    ("a Pulumi token", "pul-", rf"{_HEX}{{40}}"),
    ("a 1Password service account", "ops_", r"eyJ[\w+/-]{80,}=*"),
    ("an age secret key", "AGE-SECRET-KEY-(?:PQ-)?1", "[A-Z0-9]{58,}"),
    ("a JSON web token", "eyJ", rf"{_WORD}{{8,600}}\.{_WORD}{{8,}}\.{_WORD}{{8,}}"),
    ("a private key", "-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?", r"-----[^-]*(?:-----END [A-Z0-9 ]*-----)?"),
)
_START = r"(?<![A-Za-z0-9])(?=[-A-Za-z0-9])"  # the second half quickly excludes positions where no row can begin
_WHAT = {f"w{index}": what for index, (what, _, _) in enumerate(_ISSUED)}


class Shape(Struct, frozen=True):
    """A credential of a known shape, as a slice of the text. `body` is where its prefix ends."""

    start: int
    body: int
    end: int
    what: str


def shapes(text: str) -> Iterator[Shape]:
    """Yield every credential of a known shape, from left to right."""
    for match in _whole().finditer(text):
        name = match.lastgroup
        assert name is not None
        if _WHAT[name] != "a JSON web token" or _is_jwt(match.group()):
            yield Shape(match.start(), match.end(f"b{name[1:]}"), match.end(), _WHAT[name])


def beginnings(text: str) -> Iterator[Shape]:
    """Yield every known prefix followed by any word or by dots: a credential that was cut off, or an example."""
    for match in _begun().finditer(text):
        name = match.lastgroup
        assert name is not None
        yield Shape(match.start(), match.end(name), match.end(), _WHAT[name])


@cache
def _whole() -> re.Pattern[str]:
    rows = (rf"(?P<w{index}>(?P<b{index}>{begin}){rest})" for index, (_, begin, rest) in enumerate(_ISSUED))
    return re.compile(rf"{_START}(?:{'|'.join(rows)})(?![A-Za-z0-9])")


@cache
def _begun() -> re.Pattern[str]:
    distinct = ((index, begin) for index, (_, begin, _) in enumerate(_ISSUED) if re.search("[a-zA-Z]{2}", begin))
    rows = (rf"(?P<w{index}>{begin})" for index, begin in distinct)
    return re.compile(rf"{_START}(?:{'|'.join(rows)})[\w.*<>…%+/=-]*[\w.*>…]")


def _is_jwt(text: str) -> bool:
    """Whether the first part is JSON with an algorithm."""
    head = text.partition(".")[0]
    try:
        header = loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:  # neither base64 nor JSON
        return False
    return isinstance(header, dict) and "alg" in header


# Words in names and values: names that announce a credential, values that are plainly something else, placeholders.
# English only, as the names of variables, headers and options are.


_words = str.split
_WORDS = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
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
# `TOKEN_FILE`, `SECRET_NAME` and `PUBLIC_API_KEY` do not hold a credential.
_ABOUT = _words(
    "file filename path dir directory url uri endpoint host hostname port domain server address sock socket ttl type"
    " mode method scheme strategy policy provider backend store manager name user username email id ids header prefix"
    " format encoding algorithm alg issuer audience realm region scope scopes expiry expires expiration timeout"
    " lifetime limit budget length size count window interval enabled disabled required optional version command cmd"
    " helper var env project flow grant status check label field usage service"
)
_RULES_OUT = _words("public publishable pub max min num no use is has enable disable require allow skip")

_PLAIN = regex(
    r"""(?:
      .{0,4}                                             # too short for a secret
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
_PHRASE = regex(r"[A-Za-z]+[0-9]?(?:[-_ .:][A-Za-z]+[0-9]?)*")
MAX_WORD_CHARS = 1000  # words, paths and placeholders that a person typed are shorter

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
_FILLER = regex(r"[xX]{3,}|\*{3,}|[._-]*\.{3}|…|[-_xX*.…]{3,}")
_FILLED = regex(r"x{4}|\*{3}|\.{3}|…|example|placeholder|your|1234567890|0123456789|abcdefghij", re.IGNORECASE)
_BRACKETED = regex(
    r"<{1,2}[A-Za-z][\w .:-]{0,60}>{1,2}|\[{1,2}[A-Za-z][A-Za-z _-]{0,40}\]{1,2}"
    r"|\{\{[\w .-]{1,40}\}\}|\{[A-Za-z][\w .-]{0,40}\}"
)
# What to do about it, in words alone: `your-search-api-key-here`, `REPLACE_WITH_NEO4J_PASSWORD`.
_INSTRUCTION = regex(r"(?:[a-z]+ ){0,3}your .*|.* here|(?:change|replace|fill) (?:me|it|this|with|in) .*")
_LETTERS = regex(r"[a-z]{1,30}(?:\d[a-z]{0,9})?")
_SHELL = regex(r"\$[A-Za-z_]\w{0,60}|%[A-Za-z_]\w{0,60}%")


def noun(name: str) -> str:
    """Return the kind of credential that a variable, header, option or query of this name holds: `a password`.

    Empty if the name does not announce a credential.
    """
    words = [word.lower() for word in _WORDS.findall(name[-100:])]
    if not words or words[-1] in _ABOUT or not set(words).isdisjoint(_RULES_OUT):
        return ""
    return next(filter(None, (_noun(words, index) for index in reversed(range(len(words))))), "")


def _noun(words: Sequence[str], index: int) -> str:
    word = words[index]
    if word == "key":
        return "a key" if index and words[index - 1] in _KEYS else ""
    if word in _ALONE and len(words) == 1:
        return ""
    if word in _LAST:  # COOKIE_POLICY does not hold one
        return "a cookie" if index == len(words) - 1 else ""
    ending = next((ending for ending in _ENDINGS if word.endswith(ending)), "")
    return _NOUNS.get(word) or _NOUNS.get(ending, "")


def is_plain(literal: str, what: str) -> bool:
    """Whether this is not a credential, whatever its name says: a path, a number, a word.

    `what` is the noun of its name.
    """
    if len(literal) > MAX_WORD_CHARS:
        return False
    if _PLAIN.fullmatch(literal):
        return True
    return what == "a credential" and _PHRASE.fullmatch(literal) is not None  # AUTH: client-credentials


def is_placeholder(literal: str) -> bool:
    """Whether this only holds the place of a credential.

    It consists of common words and filling, so it can be shown.
    """
    if len(literal) > MAX_WORD_CHARS:
        return False
    if any(pattern.fullmatch(literal) for pattern in (_FILLER, _BRACKETED, _SHELL)) or literal.lower() in _BARE:
        return True
    return is_filling(literal) or _instructs(literal)


def _instructs(literal: str) -> bool:
    words = re.split("[-_ ]+", literal.lower())
    return all(map(_LETTERS.fullmatch, words)) and _INSTRUCTION.fullmatch(" ".join(words)) is not None


def is_filling(rest: str) -> bool:
    """Whether this is so for the text after a known prefix: `xxxx` after `ghp_`, `your-key` after `sk-`."""
    if len(rest) > MAX_WORD_CHARS:
        return False
    words = [word.lower() for word in re.findall(r"[A-Za-z0-9]+", rest)]
    marked = [word for word in words if word in _MARKS or re.fullmatch("x{3,}", word)]
    return bool(_FILLER.fullmatch(rest)) or (bool(marked) and set(words) <= {*_MARKS, *_FILLING, *marked})


def is_filled(body: str) -> bool:
    """Whether text with the shape of a credential was made up: `xxxx…`, `AKIAIOSFODNN7EXAMPLE`."""
    return len(set(body)) <= 3 or _FILLED.search(body) is not None


Certainty = Literal["certain", "likely", "random", "placeholder"]
LEAST_RANDOM = 20  # characters; shorter words and numbers are too often as mixed
GONE = "\0"  # replaces each character of a reference; the text of a profile never holds it

# Valid references and slightly misspelt ones. Anything else in braces is ordinary text.
REFERENCE = regex(
    r"""(?<!\$)\$\{(?:
        s[a-z]{3,6}[:.][\w./\s-]{1,80} | env[:.][\w./-]{1,80} | [a-z_]{1,40}
      | (?:env[:.])?(?P<name>[^:=?}]{1,80})(?::[-=?]?|[=?])(?P<default>(?:(?!\$\{)[^}])*)
    )\}""",
    re.IGNORECASE | re.VERBOSE,
)
# The text `${NAME}`, which the program replaces. Within a longer word it is part of a credential.
PROGRAMS = regex(r"(?<![\w}$])\$+\$\{[A-Za-z_]\w{0,80}\}(?![\w{])")
_USER = regex(r"://(?P<user>[^\s/?#@:\"']*):(?P<password>[^\s/?#@\"']+)@")
_SCHEME = regex(r"\s*(?P<scheme>bearer|basic|token|apikey)\s+", re.IGNORECASE)
_ASSIGNING = regex(
    r"""(?<![\w.:-])(?:
        -{0,2}(?P<name>[A-Za-z_][\w.-]{1,60})["']?\s*[:=]\s*
      | --?(?P<option>[A-Za-z][\w-]{1,60}),?\s+(?!-)
    )["']?""",
    re.VERBOSE,
)
_ASSIGNED = regex(
    r"(?:(?:bearer|basic|token)\s+)?(?:<{1,2}[\w .:-]{1,60}>{1,2}|\{[\w{}.-]{1,60}\}|\[{1,2}[\w .-]{1,60}\]{1,2}"
    r"|[^\s\"'&;,}\]])+",
    re.IGNORECASE,
)
_NAME_BEFORE = regex(r"(?P<name>[A-Za-z_][\w-]*)[\"']?\s*[:=]\s*[\"']?$")  # right before a value
_BEARER = regex(r"\bBearer\s+(?P<value>(?=\S*[0-9])[\w.~+/-]{8,}=*)")
_LONG = regex(rf"[A-Za-z0-9+]{{{LEAST_RANDOM},}}={{0,2}}")
_KEY_LINE = regex("[A-Za-z0-9+]{20}")  # of a private key; without such a line the text only mentions a key
# Values of `--key`, a name that says little by itself.
_KEY = regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=\S*[0-9])(?=\S*[A-Za-z])[\w~+-]{16,}", re.IGNORECASE)
_CHUNK = regex(r"[^\s=,;\"'(\[{]*$")  # back to the beginning of a path or an address
_CUT = regex(r"(?<=://)[^\s/?#@:\"]*:(?!\d{1,5}\.\.\.)[^\s/?#@\"]+(?=\.\.\.)")  # before its @
# Identifiers, which are as long and as mixed as credentials.
_IDENTIFIES = regex(
    r"(?i)(?:^|[-_])(?:ids?|uuid|guid|sha\d*|md5|hash|digest|checksum|commit|rev|revision|ref|version|fingerprint"
    r"|integrity|etag|image|model|tag|path|file|dir)$|public"
)
_NOT_SECRET = regex(r"(?:sha\d{1,3}[-:=]|@|#|ssh-\w+\s)$")  # right before the value: a digest, a pin, a public key


class Sighting(Struct, frozen=True):
    """A slice of the text that looks like a credential.

    `name` is its name in the text (`--token=…`); `shown` is a placeholder that may be shown.
    """

    start: int
    end: int
    what: str  # `a GitHub token`
    certainty: Certainty
    name: str = ""
    shown: str = ""


def sightings(text: str, name: str = "") -> tuple[Sighting, ...]:
    """Return everything in `text` that looks like a credential, from left to right.

    `name` is the name of the whole text.
    """
    defaults = (
        replace(found, start=found.start + match.start("default"), end=found.end + match.start("default"))
        for match in REFERENCE.finditer(text)
        if match["default"]
        for found in _called(match["default"], match["name"])
    )
    identified = _IDENTIFIES.search(name) is not None
    nameless = (found for found in _nameless(text) if not (identified and found.certainty == "random"))
    return apart((*_called(_opened(text), name), *nameless, *defaults))


def issued(text: str) -> tuple[Sighting, ...]:
    """Return findings that are certain without context, in a new file: known shapes, and passwords in urls."""
    passwords = (found for found in _in_urls(text) if "${" not in text[found.start : found.end])
    found = apart((*_shaped(text), *passwords))
    certain = (one for one in found if one.certainty == "certain")
    return tuple(
        one for one in certain if one.what != "a private key" or _KEY_LINE.search(text, one.start, one.start + 400)
    )


def masked(text: str) -> str:
    """Mask the credentials in a message, including those that were cut off with `...`."""
    for found in reversed(sightings(text)):
        if found.certainty != "placeholder":
            text = text[: found.start] + MASK + text[found.end :]
    for begun in reversed([*beginnings(text)]):
        if text[: begun.end].endswith("...") and not is_filling(text[begun.body : begun.end]):
            text = text[: begun.start] + MASK + text[begun.end :]
    return _CUT.sub(MASK, text)


def _opened(text: str) -> str:
    """Blank out every reference except its default. The length stays the same."""

    def gone(match: re.Match[str]) -> str:
        default = match["default"] or ""
        return GONE * (len(match[0]) - len(default) - 1) + default + GONE

    return REFERENCE.sub(gone, PROGRAMS.sub(lambda match: GONE * len(match[0]), text))


def apart(found: Iterable[Sighting]) -> tuple[Sighting, ...]:
    """Of overlapping sightings, keep the most certain. Placeholders count as certain."""
    order: dict[Certainty, int] = {"certain": 0, "placeholder": 0, "likely": 1, "random": 2}
    kept: list[Sighting] = []
    for one in sorted(found, key=lambda one: (order[one.certainty], one.start)):
        index = bisect(kept, one.start, key=lambda other: other.start)
        if (index == 0 or kept[index - 1].end <= one.start) and (index == len(kept) or kept[index].start >= one.end):
            kept.insert(index, one)
    return tuple(kept)


@lru_cache(maxsize=64)
def _nameless(text: str) -> tuple[Sighting, ...]:
    """Return the sightings that need no name. Cached: an alias may repeat one text ten thousand times in a profile."""
    opened = _opened(text)
    # The name of a secret must not be a token either: `${secret:ghp_…}`.
    return (*_shaped(text), *_in_urls(opened), *_assigned(opened), *_random(opened))


def _shaped(text: str) -> Iterator[Sighting]:
    for shape in shapes(text):
        if is_filled(text[shape.body : shape.end]):
            yield _stand_in(shape.start, shape.end, shape.what, text[shape.start : shape.body] + "...")
        else:
            before = _NAME_BEFORE.search(text, max(shape.start - 80, 0), shape.start)
            yield Sighting(shape.start, shape.end, shape.what, "certain", before["name"] if before else "")
    for shape in beginnings(text):
        if is_filling(text[shape.body : shape.end]):
            yield _stand_in(shape.start, shape.end, shape.what, text[shape.start : shape.end])


def _stand_in(start: int, end: int, what: str, shown: str, name: str = "") -> Sighting:
    return Sighting(start, end, what, "placeholder", name, shown)


def _in_urls(text: str) -> Iterator[Sighting]:
    for url in _USER.finditer(text):
        for start, end in _pieces(text, *url.span("password")):
            password = text[start:end]
            if password == url["user"] or is_placeholder(password):
                yield _stand_in(start, end, "a password", password, "password")
            else:
                yield Sighting(start, end, "a password", "certain", "password")


def _called(text: str, name: str) -> Iterator[Sighting]:
    """Yield the whole text, if its name announces a credential."""
    if "://" not in text and "-----BEGIN" not in text:  # the parts of an address and of a key file are found separately
        yield from _named(text, 0, len(text), name)
        if name.lower() == "key" and _KEY.fullmatch(text):
            yield from _judged(text, 0, len(text), "a key")


def _assigned(text: str) -> Iterator[Sighting]:
    """Find `--token=…`, `TOKEN=…`, `?api_key=…`, `Authorization: Bearer …`, `{"password": "…"}`, `--password …`."""
    position = 0
    while assigning := _ASSIGNING.search(text, position):
        position = assigning.end()
        name = assigning["name"] or assigning["option"]
        if noun(name) and (value := _ASSIGNED.match(text, position)):
            position = value.end()
            for found in _named(text, *value.span(), name):
                yield Sighting(found.start, found.end, found.what, found.certainty, name, found.shown)
    for match in _BEARER.finditer(text):
        yield from _judged(text, *match.span("value"), "a token")


def _named(text: str, start: int, end: int, name: str) -> Iterator[Sighting]:
    """Judge a slice named `name`. In an Authorization value, a scheme before it makes it certain."""
    what = noun(name)
    scheme = _SCHEME.match(text, start, end)
    if what and scheme and what == "a credential":
        what = "a password" if scheme["scheme"].lower() == "basic" else "a token"
        yield from _judged(text, scheme.end(), end, what, certainty="certain")
    elif what:
        yield from _judged(text, scheme.end() if scheme else start, end, what)


def _judged(text: str, start: int, end: int, what: str, *, certainty: Certainty = "likely") -> Iterator[Sighting]:
    for begin, stop in _pieces(text, start, end):
        literal = text[begin:stop]
        if what == "a credential" and is_plain(literal, what):
            continue  # `AUTH: token` names a kind, `PASSWORD: token` is a placeholder
        if is_placeholder(literal):
            yield _stand_in(begin, stop, what, literal)
        elif not is_plain(literal, what):
            yield Sighting(begin, stop, what, certainty)


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the literal pieces of a slice, without surrounding blanks and quotes."""
    for match in re.compile(f"[^{GONE}]+").finditer(text, start, end):
        piece = match.group()
        begin = match.start() + len(piece) - len(piece.lstrip(" \t\r\n\"'"))
        stop = match.end() - len(piece) + len(piece.rstrip(" \t\r\n\"'"))
        if begin < stop:
            yield begin, stop


def _random(text: str) -> Iterator[Sighting]:
    if "-----BEGIN" in text or "data:" in text:  # certificates and pictures
        return
    for match in _LONG.finditer(text):
        if _is_random(match.group().rstrip("=")) and not _is_identity(text, match):
            yield Sighting(match.start(), match.end(), "a credential", "random")


def _is_random(word: str) -> bool:
    """Whether letters and digits alternate more than in identifiers, and few of them repeat."""
    numbers = len(re.findall("[0-9]+", word))
    turns = sum(_class(one) != _class(other) for one, other in pairwise(word))
    return numbers >= max(2, len(word) // 12) and turns >= 0.25 * len(word) and _entropy(word) >= 3.0


def _class(character: str) -> int:
    return 0 if character.isdigit() else 1 if character.islower() else 2


def _entropy(word: str) -> float:
    """Return Shannon's entropy in bits per character: 3.3 for 20 random
    hexadecimal digits, 4.5 for 40 letters and digits."""
    shares = (count / len(word) for count in Counter(word).values())
    return -sum(share * log2(share) for share in shares)


def _is_identity(text: str, match: re.Match[str]) -> bool:
    """Whether it is a path, a digest, a commit or a public key: long and mixed, but not secret."""
    before = text[max(match.start() - 200, 0) : match.start()]
    chunk = _CHUNK.search(before)
    lead = chunk.group() if chunk else ""
    if re.match(r"(?:~|\.{1,2})?/|[A-Za-z]:[\\/]", lead) or _NOT_SECRET.search(before):
        return True
    if "://" in lead and re.fullmatch("[0-9a-f]+", match.group()):
        return True  # a page, a commit
    return match.group().startswith("AAAA") or text.startswith(".apps.googleusercontent.com", match.end())
