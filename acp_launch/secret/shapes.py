"""
What the credentials of well-known issuers look like: a beginning nobody else uses, then an alphabet and a length.

Lengths are those the issuers publish or print today, open at the end where they have grown before. A beginning that
is also a word elsewhere (`sk-`, `npm_`, `hf_`) needs a body strict enough for `sk-learn` and `npm_config_cache`. What
may fail after a scan (a look ahead, the head of a JSON web token) is bounded, so that a text from a stranger costs
linear time. Pure.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from functools import cache
from json import loads

from msgspec import Struct

_ALNUM, _WORD, _HEX = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]"

# (what it looks like, its beginning, the rest); both are regular expressions, and the first row that fits wins
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
_START = r"(?<![A-Za-z0-9])(?=[-A-Za-z0-9])"  # the second half says quickly where none of the rows can begin
_WHAT = {f"w{index}": what for index, (what, _, _) in enumerate(_ISSUED)}


class Shape(Struct, frozen=True):
    """Where in a text, as a slice, is what; `body` is where its beginning ends."""

    start: int
    body: int
    end: int
    what: str


def shapes(text: str) -> Iterator[Shape]:
    """Every credential of a known shape, from left to right."""
    for match in _whole().finditer(text):
        name = match.lastgroup
        assert name is not None
        if _WHAT[name] != "a JSON web token" or _is_jwt(match.group()):
            yield Shape(match.start(), match.end(f"b{name[1:]}"), match.end(), _WHAT[name])


def beginnings(text: str) -> Iterator[Shape]:
    """Every place where one begins, followed by any word at all, or by dots: cut off, or not meant to be real."""
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
    """Whether the first part is JSON that names an algorithm."""
    head = text.partition(".")[0]
    try:
        header = loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:  # neither base64 nor JSON
        return False
    return isinstance(header, dict) and "alg" in header
