"""What looks like a credential and what does not (ours). Tokens are put together here, so that no scanner finds one."""

import random
import string
import uuid
from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.secret.detect import Sighting, issued, masked, sightings

MIXED, HEX = "a1B2", "0a1b2c3d"
RANDOM = "k7Qz" + "Xm2Pv9" + "Lw4RtB8" + "nYc3Hs"  # 23 random characters
JWT = ".".join(
    urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256"}', b'{"sub":"somebody"}', b"signature")
)


def body(length: int, of: str = MIXED) -> str:
    return (of * length)[:length]


KNOWN = [
    *(("a GitHub token", f"gh{kind}_" + body(36)) for kind in "pousr"),
    ("a GitHub token", "github_pat_" + body(22) + "_" + body(59)),
    ("a GitLab token", "glpat-" + body(20)),
    ("an OpenAI key", "sk-" + body(48)),
    ("an OpenAI key", "sk-proj-" + body(120)),
    ("an OpenRouter key", "sk-or-v1-" + body(64, HEX)),
    ("an Anthropic key", "sk-ant-" + "api03-" + body(93) + "AA"),
    ("a Google API key", "AIza" + "Sy" + body(33)),
    ("a Google access token", "ya29." + body(60)),
    ("an AWS access key", "AKIA" + body(16, "Q7WZ")),
    ("an AWS access key", "ASIA" + body(16, "Q7WZ")),
    ("a Slack token", "xoxb-" + "123456" + "-" + body(24)),
    ("a Slack token", "xapp-" + "1-A0-" + body(24)),
    ("a Slack webhook", "https://hooks.slack.com/" + "services/T0/B0/" + body(24)),
    ("a Discord webhook", "https://discord.com/api/" + "webhooks/" + "987612340987612340/" + body(68)),
    ("a Discord bot token", "M" + body(25) + "." + body(6) + "." + body(38)),
    ("a Stripe key", "sk_" + "live_" + body(24)),
    ("a Stripe key", "rk_" + "live_" + body(24)),
    ("a Stripe key", "sk_" + "test_" + body(24)),
    ("an npm token", "npm_" + body(36)),
    ("a PyPI token", "pypi-" + "AgEI" + body(160)),
    ("a Hugging Face token", "hf_" + body(34, "aBcDeFgH")),
    ("a Groq key", "gsk_" + body(52)),
    ("an xAI key", "xai-" + body(80)),
    ("a Replicate token", "r8_" + body(37)),
    ("a Perplexity key", "pplx-" + body(48)),
    ("an NVIDIA key", "nvapi-" + body(64)),
    ("a Tavily key", "tvly-" + "dev-" + body(32)),
    ("a Firecrawl key", "fc-" + body(32, HEX)),
    ("a Notion token", "ntn_" + body(46)),
    ("a Notion token", "secret_" + body(43)),
    ("a Linear key", "lin_" + "api_" + body(40)),
    ("a Figma token", "figd_" + body(40)),
    ("an Airtable token", "pat" + body(14) + "." + body(64, HEX)),
    ("a Supabase key", "sbp_" + body(40, HEX)),
    ("an Atlassian token", "ATATT3" + body(180) + "=" + body(8)),
    ("a SendGrid key", "SG." + body(22) + "." + body(43)),
    ("a Twilio key", "SK" + body(32, HEX)),
    ("a Telegram bot token", "123456789" + ":AA" + body(33)),
    ("a Shopify token", "shpat_" + body(32, HEX)),
    ("a Sentry token", "sntrys_" + body(90) + "="),
    ("a Databricks token", "dapi" + body(32, HEX)),
    ("a DigitalOcean token", "dop_v1_" + body(64, HEX)),
    ("a Docker token", "dckr_pat_" + body(27)),
    ("a Vault token", "hvs." + body(90)),
    ("an age secret key", "AGE-SECRET-KEY-" + "1" + body(58, "Q7WZ")),
    ("a JSON web token", JWT),
    ("a private key", "-----BEGIN " + "OPENSSH PRIVATE KEY-----\n" + body(70) + "\n-----END OPENSSH PRIVATE KEY-----"),
    ("a private key", "-----BEGIN " + "PRIVATE KEY-----\\n" + body(70) + "\\n-----END PRIVATE KEY-----"),
]


def the_only(text: str, name: str = "") -> Sighting:
    (found,) = sightings(text, name)
    return found


def test_a_known_shape_is_certain_wherever_it_stands() -> None:
    for what, token in KNOWN:
        for before, after in (("", ""), ("--key=", ""), ('{"a": "', '"}'), ("Bearer ", " "), ("x ", ", y")):
            found = the_only(before + token + after)
            assert (found.what, found.certainty) == (what, "certain")
            assert (before + token + after)[found.start : found.end] == token


def test_a_known_shape_is_certain_in_an_unread_text() -> None:
    for what, token in KNOWN:
        text = f"# was: {token} once\nTOKEN: abcd-1234\n"
        assert [(found.what, text[found.start : found.end]) for found in issued(text)] == [(what, token)]


def test_the_beginning_of_a_known_shape_or_one_within_a_word_is_not_certain() -> None:
    for what, token in KNOWN:
        assert not [found for found in sightings(token[:14]) if found.certainty == "certain"]
        assert not [found for found in sightings("x" + token) if found.what == what and found.start == 1]


CALLED = [
    ("DB_PASSWORD", "hunter22", "a password"),
    ("PGPASSWORD", "correct horse battery", "a password"),
    ("MYSQL_PASS", "tiger-12", "a password"),
    ("DB_PWD", "tiger-12", "a password"),
    ("GITHUB_PAT", "0123abcd", "a token"),
    ("API_TOKEN", "123e4567-e89b-12d3-a456-426614174000", "a token"),
    ("accessToken", "a1b2c3d4e5", "a token"),
    ("BRAVE_API_KEY", "BSA" + RANDOM, "a key"),
    ("APIKEY", "abcd1234", "a key"),
    ("X-Api-Key", "abcd1234", "a key"),
    ("AWS_SECRET_ACCESS_KEY", body(40), "a key"),
    ("SSH_PRIVATE_KEY", "abcd1234", "a key"),
    ("CLIENT_SECRET", "abcd-1234", "a secret"),
    ("GOOGLE_CREDENTIALS", '{"a": 1, "b": 2}', "a credential"),
    ("AUTH", "admin:hunter22", "a credential"),
    ("GITHUB_TOKEN_2", "abcd1234", "a token"),
    ("PASSWORD", "12345678", "a password"),
    ("Cookie", "session=deadbeefcafe1234", "a cookie"),
    ("SESSION_COOKIE", "sid=9f8e7d6c5b4a", "a cookie"),
    ("key", "4f1c2d3e-aaaa-4bbb-8ccc-123456789abc", "a key"),
    ("key", "a1b2c3d4e5f6g7h8", "a key"),
]


def test_what_is_called_a_credential_likely_is_one() -> None:
    for name, literal, what in CALLED:
        assert the_only(literal, name) == Sighting(0, len(literal), what, "likely")


WITHIN = [
    ("--token=abcd1234", "token", "abcd1234"),
    ("serve --api-key abcd1234 --port 80", "api-key", "abcd1234"),
    ("DB_PASSWORD=hunter22", "DB_PASSWORD", "hunter22"),
    ("Server=db;User=sa;Password=hunter22;Encrypt=no", "Password", "hunter22"),
    ("https://example.com/mcp?api_key=abcd1234&q=1", "api_key", "abcd1234"),
    ('{"password": "hunter22", "port": 1}', "password", "hunter22"),
    ("Authorization: Bearer abcd1234", "Authorization", "abcd1234"),
    ("Authorization: Bearer secret-of-the-house", "Authorization", "secret-of-the-house"),
    ("Authorization:Basic dTpw1234", "Authorization", "dTpw1234"),
    ("--header 'Cookie: session=deadbeef1234'", "Cookie", "session=deadbeef1234"),
    ("curl -H 'X-Api-Key: abcd1234' https://example.com", "X-Api-Key", "abcd1234"),
]


@pytest.mark.parametrize(("text", "name", "literal"), WITHIN)
def test_a_text_may_call_a_part_of_itself_a_credential(text: str, name: str, literal: str) -> None:
    found = the_only(text)
    assert (found.name, text[found.start : found.end]) == (name, literal)
    assert found.certainty == ("certain" if name == "Authorization" else "likely")


@pytest.mark.parametrize(
    ("text", "name", "what", "literal"),
    [
        ("https://me:hunter22@example.com/mcp", "", "a password", "hunter22"),
        ("postgresql://app:hunter22@db:5432/x", "DATABASE_URL", "a password", "hunter22"),
        ("redis://:hunter22@localhost", "", "a password", "hunter22"),
        ("Bearer abcd1234", "Authorization", "a token", "abcd1234"),
        ("Basic dTpwdTpw1234", "Proxy-Authorization", "a password", "dTpwdTpw1234"),
        ("bearer  abcdefghijk", "authorization", "a token", "abcdefghijk"),
    ],
)
def test_a_password_in_a_url_and_an_authorization_are_certain(text: str, name: str, what: str, literal: str) -> None:
    found = the_only(text, name)
    assert (found.what, found.certainty, text[found.start : found.end]) == (what, "certain", literal)


@pytest.mark.parametrize(
    "text",
    [
        RANDOM,
        f"--session={RANDOM}",
        f"https://mcp.example.com/s/{RANDOM}/mcp",
        body(40, "9f8e7d6c5b4a39281706"),
        b64encode(b"somebody:his password, long").decode(),
    ],
)
def test_long_random_text_is_suspicious_whatever_its_name(text: str) -> None:
    found = the_only(text, "PLAIN")
    assert (found.what, found.certainty) == ("a credential", "random")


@pytest.mark.parametrize(
    ("alphabet", "share"), [(string.ascii_letters + string.digits, 0.9), ("0123456789abcdef", 0.95)]
)
@pytest.mark.parametrize("length", [32, 40, 64])
def test_most_random_words_are_found(alphabet: str, share: float, length: int) -> None:
    dice = random.Random(7)
    words = ["".join(dice.choices(alphabet, k=length)) for _ in range(300)]
    assert sum(bool(sightings(word)) for word in words) >= share * len(words)


PLACEHOLDERS = [
    *(("TOKEN", text) for text in ("changeme", "CHANGE_ME", "<token>", "<YOUR_TOKEN>", "your-token-here", "xxxxxxxx")),
    *(("API_KEY", text) for text in ("TODO", "REPLACE_ME", "...", "***", "your_api_key", "{{api_key}}", "$API_KEY")),
    *(("API_KEY", text) for text in ("your-brave-api-key-here", "YOUR_NEO4J_PASSWORD", "change-me-in-production")),
    *(("API_KEY", text) for text in ("put_your_s3_key", "{secret}", "<your github token with scope repo>")),
    ("Authorization", "Bearer <token>"),
    ("", "--token=changeme"),
    ("", "https://example.com/mcp?api_key={apiKey}&x=y"),
    ("", "TOKEN=[YOUR_KEY]"),
    ("", "--token=<your github token> --verbose"),
    ("", "postgres://postgres:postgres@localhost/db"),
    ("", "https://me:<password>@example.com"),
    *(("", start + "xxxxxxxxxxxx") for start in ("ghp_", "sk-", "sk-ant-", "xoxb-", "AIza")),
    *(("", text) for text in ("sk-your-key-here", "ghp_...", "ghp_your_token_here", "xoxb-your-bot-token")),
    ("", "AKIA" + "IOSFODNN7" + "EXAMPLE"),
    ("", "ghp_" + "x" * 36),
]


def test_a_placeholder_is_told_from_a_credential() -> None:
    for name, text in PLACEHOLDERS:
        found = the_only(text, name)
        assert found.certainty == "placeholder"
        assert found.shown.removesuffix("...") in text


@pytest.mark.parametrize("token", ["ghp_" + body(28) + "xxxx" + body(4), "sk-" + body(40) + "EXAMPLE"])
def test_only_the_beginning_of_an_issuers_placeholder_is_shown(token: str) -> None:
    """The rest may be a real secret after all."""
    assert the_only(token).shown == token[: token.index(token.lstrip("ghpsk_-")[:1], 3)] + "..."


HARMLESS = """\
-y
@modelcontextprotocol/server-filesystem
@modelcontextprotocol/server-github@2025.4.8
/home/me/projects/some-long-directory-name/with/more
ghcr.io/github/github-mcp-server@sha256:9b2f3c1d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef
docker.io/mcp/server:1.2.3
mcp-server-git
git+https://github.com/org/repo.git@0123456789abcdef0123456789abcdef01234567
git+https://github.com/org/repo.git#9f8e7d6c5b4a39281706f5e4d3c2b1a098765432
https://github.com/org/repo/commit/9f8e7d6c5b4a39281706f5e4d3c2b1a098765432
https://api.githubcopilot.com/mcp/
https://www.notion.so/Page-Title-9f8e7d6c5b4a39281706f5e4d3c2b1a0
https://example.com/users/123e4567-e89b-12d3-a456-426614174000
https://docs.example.com/mcp?version=2025-06-18&format=json
postgres://localhost/db
postgresql://me@localhost:5432/mydb?sslmode=disable
redis://localhost:6379/0
claude-sonnet-4-5-20250929
us.anthropic.claude-3-7-sonnet-20250219-v1:0
gpt-4o-mini-2024-07-18
bartowski/Meta-Llama-3.1-70B-Instruct-GGUF:Q4_K_M
123e4567-e89b-12d3-a456-426614174000
2026-01-31T10:20:30Z
1234567890-abcdefghij0123456789klmnopqrstuv.apps.googleusercontent.com
arn:aws:iam::123456789012:role/my-deploy-role
arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-Ab3dEf
vpc-0a1b2c3d4e5f67890
--experimental-acp
--allow-dir=/nix/store/8x7k3jh5a9v0c1b2n3m4l5k6j7h8g9f0-nodejs-20.11.1/bin
/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/tmp9x8y7z6w5v4u
C:\\Users\\me\\AppData\\Local\\Temp\\a1b2c3d4e5f6a7b8c9d0e1f2
sk-learn
sk-learn-intelex-extension-module-2025
npm_config_cache=/tmp/npm
hf_transfer
pypi-server
AIzaSy
glpat-docs
pplx-70b-online
secret_name_of_the_bucket
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8x7k3jh5a9v0c1b2n3m4l5k6j7h8g9f0a1b2c3d4 me@host
sha512-9x8y7z6w5v4u3t2s1r0q9p8o7n6m5l4k3j2h1g0f9e8d7c6b5a4A3B2C1D0==
Authorization: Bearer ${env:TOKEN}
Authorization:${env:AUTH_HEADER}
{"Authorization": "Bearer ${secret:notion}", "Notion-Version": "2022-06-28"}
GITHUB_PERSONAL_ACCESS_TOKEN
--env-file=.env
--token-file=/run/secrets/token
--max-tokens=4096
--auth-type=oauth
--oauth-scopes=read:user,repo
Use Bearer authentication with this server
set -e; exec npx -y foo --stdio
T01ABCDEFGH
Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0
tcp://user@host:22
127.0.0.1:8080
op://vault/item/credential
18446744073709551615
text/event-stream
io.modelcontextprotocol.server.filesystem.v20250618
""".splitlines()

HARMLESS_CALLED = [
    ("key", "project"),
    ("key", "keys/of-the-project-2.pem"),
    ("key", "a-sort-key"),
    ("COOKIE_DOMAIN", "a-1.example.com"),
    ("COOKIE_POLICY", "essential-only-2"),
    ("cookies", "true"),
    ("PATH", "/usr/local/bin:/home/me/.nvm/versions/node/v20.11.1/bin"),
    ("PWD", "/home/me"),
    ("TOKEN_FILE", "/run/secrets/x"),
    ("SECRET_KEY_FILE", "k3y.pem"),
    ("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),
    ("CLIENT_ID", "8x7k3jh5a9v0c1b2n3m4l5k6"),
    ("NOTION_DATABASE_ID", "9f8e7d6c5b4a39281706f5e4d3c2b1a0"),
    ("GIT_COMMIT", "9f8e7d6c5b4a39281706f5e4d3c2b1a098765432"),
    ("MAX_TOKENS", "4096"),
    ("TOKEN_LIMIT", "200000"),
    ("TOKEN_TTL", "3600s"),
    ("TOKEN_URL", "https://idp.example.com/oauth/token"),
    ("AUTH_TYPE", "oauth2"),
    ("AUTH", "none"),
    ("AUTH", "client-credentials"),
    ("OAUTH_ENABLED", "true"),
    ("AUTHOR", "Jane Doe 2nd"),
    ("SECRET_NAME", "prod/db/readonly-2"),
    ("NEXT_PUBLIC_API_KEY", "pk_" + "live_" + body(24)),
    ("PASSWORD_STORE_DIR", "/home/me/.password-store"),
    ("PASSWORD_MIN_LENGTH", "12"),
    ("TOKENIZER", "cl100k_base"),
    ("TOKENIZERS_PARALLELISM", "false"),
    ("CACHE_KEY", "user_profile_v2"),
    ("COMPASS_URL", "mongodb://localhost:27017"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "key.json"),
    ("DATABASE_URL", "postgres://localhost/db"),
    ("GITHUB_TOKEN", ""),
    ("GITHUB_TOKEN", "${secret:github}"),
    ("GITHUB_TOKEN", "${env:GITHUB_TOKEN}"),
    ("GITHUB_TOKEN", "${env:GITHUB_TOKEN:-}"),
    ("Authorization", "Bearer ${secret:docs-2}"),
    ("Authorization", "Basic ${env:BASIC}"),
    ("TOKEN", "GITHUB_TOKEN"),
]


def test_what_real_configurations_hold_is_no_credential_and_a_name_alone_makes_none() -> None:
    for name, text in (*(("", text) for text in HARMLESS), *HARMLESS_CALLED):
        assert sightings(text, name) == ()


@given(st.uuids())
def test_a_uuid_is_nothing_to_worry_about_unless_its_name_says_so(number: uuid.UUID) -> None:
    assert sightings(str(number), "TENANT") == ()
    assert len(sightings(str(number), "API_KEY")) == 1


def test_the_default_of_a_reference_is_a_literal_like_any_other() -> None:
    assert the_only("${env:TOKEN:-abcd1234}") == Sighting(13, 21, "a token", "likely")
    assert the_only("--x=${env:X:-" + "ghp_" + body(36) + "}").certainty == "certain"
    assert the_only("https://me:${env:X:-hunter22}@example.com").what == "a password"
    assert sightings("https://me:${env:X}@example.com/${project}") == ()


def test_a_token_is_no_secrets_name_and_an_escaped_reference_no_reference() -> None:
    token = "ghp_" + body(36)
    assert the_only(f"${{secret:{token}}}").what == "a GitHub token"
    assert the_only(f"$${{{token}}}").what == "a GitHub token"


def test_a_variable_for_the_program_is_no_credential_and_braces_within_one_are_part_of_it() -> None:
    for text in ("$${TOKEN}", "Bearer $${TOKEN}", "$$${TOKEN}"):
        assert sightings(text, "API_TOKEN") == ()
    for text in ("Authorization:$${AUTH_HEADER}", "--token=$${TOKEN}", "https://me:$${TOKEN}@example.com"):
        assert sightings(text) == ()
    assert the_only("--password=qT7$${wZ4}nK8b") == Sighting(11, 25, "a password", "likely", "password")
    assert the_only("qT7$${wZ4}nK8b", "DB_PASSWORD").end == 14
    assert the_only("your-9-long-passphrases", "DB_PASSWORD").certainty == "likely"


def test_a_message_is_masked_where_it_quotes_a_credential() -> None:
    token = "ghp_" + body(36)
    assert masked(f'expected a mapping, found the text "{token}"') == 'expected a mapping, found the text "***"'
    assert (
        masked(f'"https://me:hunter22@x/" and "--token abcd1234" {token}')
        == '"https://me:***@x/" and "--token ***" ***'
    )
    assert masked("write it as a list: [--token, abcd1234]") == "write it as a list: [--token, ***]"


@pytest.mark.parametrize(
    ("cut", "shown"),
    [
        ("github_pat_" + body(46) + "...", "***..."),
        ("postgres://me:" + "hunter22" * 5 + "...", "postgres://***..."),
        ("PASSWORD=" + "hunter22" * 6 + "...", "PASSWORD=***"),
        ("eyJ" + body(54) + "...", "***"),
    ],
)
def test_a_credential_is_masked_even_when_it_was_cut_off(cut: str, shown: str) -> None:
    assert masked(f'found the text "{cut}"') == f'found the text "{shown}"'


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("${env:TOKEN=abcd-1234}", "${env:TOKEN=***}"),
        ("${env:TOKEN:abcd-1234}", "${env:TOKEN:***}"),
        ("${env.TOKEN:-abcd-1234}", "${env.TOKEN:-***}"),
        ("${TOKEN:-abcd-1234}", "${TOKEN:-***}"),
        ("${secret:x:-abcd-1234}", "${secret:***}"),
        ("${TOKEN:-no}", "${TOKEN:-no}"),
        ("${LEVEL=debug-1234}", "${LEVEL=debug-1234}"),
    ],
)
def test_a_misspelt_default_is_masked_like_one(written: str, shown: str) -> None:
    assert masked(f"unknown reference {written}") == f"unknown reference {shown}"


@pytest.mark.parametrize(
    "message",
    [
        "unknown reference ${secret:git hub 2}; did you mean ${secret:git-hub-2}?",
        "unknown reference ${secrt:github-2}; did you mean ${secret:github-2}?",
        'unknown key "tokn"; did you mean "token"?',
        'the key "password" appears twice; the first is on line 3',
        '"changeme" is a placeholder, not a token',
        "add: version: 1",
        'expected an http or https url, found "localhost:8080/a..."',
        "mcp_servers.github.env.GITHUB_TOKEN",
        "Unable to initialize SecretService: Environment variable DBUS_SESSION_BUS_ADDRESS is unset",
    ],
)
def test_a_message_without_a_credential_stays_as_it_is(message: str) -> None:
    assert masked(message) == message


@given(st.text(alphabet=st.sampled_from("ab1-_.:=/@ \"'${}skTOKEN"), max_size=60), st.sampled_from(["", "TOKEN", "X"]))
def test_no_text_breaks_it_and_what_is_seen_lies_within_and_apart(text: str, name: str) -> None:
    ends = [0, *(end for found in sightings(text, name) for end in (found.start, found.end)), len(text)]
    assert ends == sorted(ends)
    assert masked(masked(text)) == masked(text)


@pytest.mark.sample(0, 3)
@pytest.mark.parametrize(
    "unit", ["eyJ-", "token=", "://a:b", "${env:A:-", "xoxb-", "--token ", "a0B", " ", "token=<a "]
)
def test_a_large_text_costs_linear_time(unit: str) -> None:
    """Not by the clock: the suite's own time-out is what the square of a quarter of a million would meet."""
    assert len(sightings((unit * 200_000)[: 1 << 18], "PASSWORD")) <= 1
