"""
Trust in files of projects: which profiles and batches the user has accepted, by content (docs/trust.md).

A profile of the user's own directory, or a built-in one, is trusted. Any other, and any that includes a file of a
project, starts nothing until the user accepts it. An acceptance is bound to the merged content and to the project's
path. The text that is judged is the text that runs; it is not read again in between. A directory of acp-launch that an
environment variable put into the project counts as the project's, so it cannot vouch for the project.

A `Claim` is what wants to be trusted. `judge`, `keep` and `revoke` are the store; `trust_state` and `accept` are for
profiles. `content` and `changes` are what the user accepts, line by line.
`power` says what setting a variable can do, and `shown` writes a line for the user without credentials.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from acp_launch.descent import remove
from acp_launch.document.nodes import Plain
from acp_launch.errors import StateError
from acp_launch.private import Unfit, find_doubt, hash_content, make_digest, make_private, read_bounded, real, replace
from acp_launch.profile.discover import HOLDER, boundary
from acp_launch.profile.layers import PLACES, Layer
from acp_launch.profile.load import Loaded
from acp_launch.profile.lockfile import trusted as locked
from acp_launch.regex import regex
from acp_launch.secret.detect import sightings
from acp_launch.secret.value import MASK
from acp_launch.settings.load import belongs_to, elsewhere
from acp_launch.settings.model import Settings

# The content that is accepted: the merged profile, one line for each value. Lines are sorted by path, so the order of
# keys, comments and notation make no difference. Two different profiles never give the same lines, because keys and
# texts are JSON, and an empty mapping or list has its own line.
PLAIN = regex(r"[A-Za-z_][A-Za-z0-9_-]*")


def content(merged: Mapping[str, Plain]) -> tuple[str, ...]:
    """Return a line for every value of the merged profile, references unresolved."""
    return tuple(_lines("", dict(merged)))


def _content(loaded: Loaded) -> tuple[str, ...]:
    """Return the content with what the lock file says of the profile: a changed lock is accepted anew."""
    return content({**loaded.merged, **locked(loaded.lock)})


def digest(project: str, lines: Sequence[str]) -> str:
    """Return the SHA-256 of these lines in this project, in hex."""
    return hash_content("\0".join([project, *lines]).encode(errors="surrogatepass"))


def digest_content(loaded: Loaded) -> str:
    """Return the SHA-256 of all that is accepted of a profile, whichever project it is in; in hex."""
    return hash_content("\0".join(_content(loaded)).encode(errors="surrogatepass"))


def changes(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yield removed lines with `- ` before them and new ones with `+ `, in order."""
    from difflib import SequenceMatcher

    for kind, first, last, start, stop in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (f"- {line}" for line in before[first:last])
            yield from (f"+ {line}" for line in now[start:stop])


def _lines(path: str, value: Plain) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            name = key if PLAIN.fullmatch(key) else json.dumps(key)
            yield from _lines(f"{path}.{name}" if path else name, value[key])
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _lines(f"{path}[{index}]", item)
    else:
        yield f"{path}: {json.dumps(value)}"


VERSION = 1
MAX_ACCEPTANCE_BYTES = 8 * 1024 * 1024  # a profile's files hold less
FOREIGN = ("path", "project")  # origins of files that are untrusted


class Acceptance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of the store. `lines` show later what has changed, credentials masked; `digest` covers everything."""

    version: int
    project: str
    profile: str
    file: str
    digest: str
    lines: tuple[str, ...]
    since: float  # Unix seconds


class Claim(Struct, frozen=True, kw_only=True):
    """What wants to be trusted: a file with all that it starts or allows, in `lines`; `shelf` is its part of the store.

    `noun` says what it is, and `called` how a command names it.
    """

    noun: str = "profile"
    name: str
    called: str
    label: str
    project: Path
    file: Path
    lines: tuple[str, ...]
    shelf: str = "trust"


class TrustState(Struct, frozen=True, kw_only=True):
    """
    The trust in a claim. `label` is the file's name in messages, `now` its present content, `before` the last
    acceptance, `doubts` the reasons why it cannot be accepted, `weakened` what a file takes from the confinement that
    another asks for.
    """

    label: str
    how: Literal["own", "accepted", "new", "changed", "doubtful"]
    now: tuple[str, ...] = ()
    before: Acceptance | None = None
    doubts: tuple[str, ...] = ()
    weakened: tuple[str, ...] = ()

    @property
    def is_trusted(self) -> bool:
        return self.how in ("own", "accepted")


def claim_profile(loaded: Loaded) -> Claim:
    found = loaded.found
    file = real(found.file.parent) / found.file.name  # the file itself may be a link
    return Claim(
        name=found.name,
        called=found.called,
        label=loaded.label,
        project=real(found.project),
        file=file,
        lines=_content(loaded),
    )


def trust_state(loaded: Loaded, settings: Settings) -> TrustState:
    """Determine whether this user trusts the profile.

    Raises:
        StateError: the store cannot be read.
    """
    is_ours = not belongs_to(settings.config, real(loaded.found.project), "CONFIG")
    foreign = [layer for layer in loaded.layers if _is_foreign(layer, is_ours=is_ours)]
    if not foreign:
        return TrustState(label=loaded.label, how="own")
    places = [f"runtime.{kind}" for kind in PLACES]
    weakened = tuple(each.message for each in loaded.problems if each.path in places)
    files = {layer.label: layer.file for layer in foreign}
    return judge(claim_profile(loaded), settings, files, boundary(loaded.found.file), weakened)


def judge(
    claim: Claim, settings: Settings, foreign: Mapping[str, Path], around: Path, weakened: tuple[str, ...] = ()
) -> TrustState:
    """Determine whether this user trusts a claim. `foreign` are its files that are not the user's own, by their labels,
    none of which may lead out of the directory `around`.

    Raises:
        StateError: the store cannot be read.
    """
    if not foreign:
        return TrustState(label=claim.label, how="own")
    state = partial(TrustState, label=claim.label, now=claim.lines, weakened=weakened)
    within = real(around)
    if doubts := tuple(f"{label} {doubt}" for label, file in foreign.items() for doubt in _doubts_about(file, within)):
        return state(how="doubtful", doubts=doubts)
    is_projects = belongs_to(settings.state, claim.project, "STATE")
    before = None if is_projects else _read(_place(settings, claim))
    if before is None or (before.project, before.file) != (str(claim.project), str(claim.file)):
        return state(how="new")
    is_same = before.digest == digest(str(claim.project), claim.lines)
    return state(how="accepted" if is_same else "changed", before=before)


def accept(loaded: Loaded, settings: Settings) -> None:
    """Accept the profile's present content; as `keep`."""
    keep(claim_profile(loaded), settings)


def keep(claim: Claim, settings: Settings) -> None:
    """Accept a claim.

    Raises:
        StateError: the acceptance cannot be stored.
    """
    if belongs_to(settings.state, claim.project, "STATE"):
        raise StateError(
            f"the state directory {settings.state} lies in the project, so acceptances in it cannot be trusted",
            fix=elsewhere("STATE"),
        )
    acceptance = Acceptance(
        version=VERSION,
        project=str(claim.project),
        profile=claim.name,
        file=str(claim.file),
        digest=digest(str(claim.project), claim.lines),
        lines=tuple(str(shown(line)) for line in claim.lines),
        since=time.time(),
    )
    path = _place(settings, claim)
    with _explain_errors(path, "store the acceptance in"):
        make_private(path.parent)
        replace(path, msgspec.json.encode(acceptance))


def accepted(settings: Settings) -> list[Acceptance]:
    """List every acceptance, sorted by project and name. A file that cannot be read does not count as one."""
    found: list[Acceptance | None] = []
    for path in sorted((settings.state / "trust").glob("*.json")):
        with suppress(StateError):
            found.append(_read(path))
    return sorted(filter(None, found), key=lambda each: (each.project, each.profile))


def revoke(acceptance: Acceptance, settings: Settings) -> None:
    """Withdraw an acceptance.

    Raises:
        StateError: it cannot be removed.
    """
    path = _find_place(settings, "trust", acceptance.project, Path(acceptance.file))
    with _explain_errors(path, "remove the acceptance from"):
        remove(path)


def _is_foreign(layer: Layer, *, is_ours: bool) -> bool:
    """Whether the file is untrusted. A file in the user's own directory can be a link into a project."""
    if layer.origin == "user":
        return not is_ours or real(layer.file).parent.name == HOLDER
    return layer.origin in FOREIGN


def _doubts_about(file: Path, project: Path) -> Iterator[str]:
    target = real(file)
    if not target.is_relative_to(project):
        yield f"{'leads' if target == file else 'is a link that leads'} out of the project, to {target}"
        return
    for path in (target, target.parent):
        try:
            status = path.stat()
        except OSError as error:
            yield f"cannot be checked: {error.strerror}"
            return
        if doubt := find_doubt(status):
            yield doubt if path == target else f"lies in {path.name or path}, which {doubt}"


def _place(settings: Settings, claim: Claim) -> Path:
    return _find_place(settings, claim.shelf, str(claim.project), claim.file)


def _find_place(settings: Settings, shelf: str, project: str, file: Path) -> Path:
    """Return the path of an acceptance: a readable name, made unique by a digest of project and file."""
    readable = "".join(mark if (mark.isalnum() and mark.isascii()) or mark in "-_" else "_" for mark in file.stem[:40])
    return settings.state / shelf / f"{readable}-{make_digest(project, str(file))}.json"


def _read(path: Path) -> Acceptance | None:
    """Read an acceptance; None if it does not exist, or others could have written it: then the user is asked again."""
    try:
        with _explain_errors(path, "read the acceptance from"):
            try:
                found = read_bounded(path, MAX_ACCEPTANCE_BYTES)
            except NotADirectoryError:  # code that writes to the state directory reports it
                return None
            is_ours = found is not None and not find_doubt(path.stat())
        return None if found is None or not is_ours else msgspec.json.decode(found[0], type=Acceptance)
    except msgspec.MsgspecError:
        return None


@contextmanager
def _explain_errors(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        raise StateError(
            f"cannot {doing} {path}: {error.object!r} is not valid Unicode", fix="rename the directory"
        ) from None
    except Unfit as unfit:
        raise StateError(f"{path} {unfit}", fix="remove it, and trust the profile again") from None
    except OSError as error:
        fix = f"check the owner, the mode and the free space of {path.parent}"
        raise StateError(f"cannot {doing} {path}: {error.strerror or error}", fix=fix) from error


# Environment variables that can make other programs run, or send credentials elsewhere.
#
# A name is listed if widely used programs obey it; a family of names if most of them do. Variables that name code, a
# program, a place where either is searched or fetched, or a settings file that may name one, make programs run.
# Variables that name an address, or certificates to trust, send credentials elsewhere. Values are not judged: `./x`
# may be anything.
RUNS = "can make programs run"
SENDS = "can send credentials elsewhere"

_RUNNING = """
    BASH_ENV ENV ZDOTDIR PROMPT_COMMAND PS4 SHELLOPTS BASHOPTS BASH_FUNC_* FPATH SHELL COMSPEC PSMODULEPATH PATH
    PATHEXT HOME USERPROFILE APPDATA LOCALAPPDATA XDG_CONFIG_* XDG_DATA_*
    LD_* DYLD_* LIBPATH GCONV_PATH GLIBC_TUNABLES OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES GIO_EXTRA_MODULES
    GIO_MODULE_DIR GTK_MODULES GTK_PATH QT_PLUGIN_PATH SASL_PATH DBUS_*_ADDRESS
    PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONUSERBASE PYTHONEXECUTABLE PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX
    PYTHONBREAKPOINT PYTHONWARNINGS PYTHONINSPECT PYTEST_ADDOPTS PYTEST_PLUGINS VIRTUAL_ENV CONDA_* PYENV_* PIP_*
    PIPX_* UV_* POETRY_* PDM_* HATCH_*
    NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE ELECTRON_RUN_AS_NODE TS_NODE_* TSX_* NPM_CONFIG_* NPM_EXECPATH
    NPM_NODE_EXECPATH COREPACK_* YARN_* PNPM_* BUN_* DENO_DIR NVM_* FNM_* VOLTA_* ASDF_* MISE_*
    PERL5OPT PERL5LIB PERL5DB PERLLIB RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_* RBENV_* PHPRC PHP_INI_SCAN_DIR
    LUA_INIT* LUA_PATH* LUA_CPATH* R_PROFILE* R_ENVIRON* R_LIBS* JULIA_LOAD_PATH JULIA_DEPOT_PATH ERL_*FLAGS
    ERL_LIBS
    CLASSPATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_* GRADLE_* DOTNET_* CORECLR_* COMPLUS_* NUGET_*
    GOFLAGS GOENV GOPROXY GOSUMDB GOTOOLCHAIN GOROOT GOPATH GOBIN RUSTC RUSTC_* RUSTFLAGS RUSTUP_* CARGO CARGO_*
    NIX_*
    MAKEFLAGS GNUMAKEFLAGS MAKEFILES CC CXX CPP LD AR CFLAGS CXXFLAGS LDFLAGS CMAKE_* PKG_CONFIG*
    GIT_* HGRCPATH SVN_SSH CVS_RSH RSYNC_RSH RSYNC_CONNECT_PROG SSH_ASKPASS SUDO_ASKPASS EDITOR VISUAL PAGER BROWSER
    LESSOPEN LESSCLOSE VIMINIT EXINIT EMACSLOADPATH GNUPGHOME NETRC WGETRC PSQLRC KUBECONFIG HELM_* DOCKER_CONFIG
    COMPOSE_FILE AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE CLOUDSDK_* TF_* ANSIBLE_*
    GOOGLE_APPLICATION_CREDENTIALS
    *_EDITOR *_PAGER *_BROWSER *_COMMAND *_CMD *_EXEC *_EXECUTABLE *_BINARY *_BIN *_INTERPRETER *_PRELOAD *_WRAPPER
    *_LAUNCHER *_SHELL *_SHELL_PREFIX *_SSH *_RSH *_ASKPASS *_HELPER *_HOOK *_HOOKS *_PLUGIN *_PLUGINS *_PLUGIN_PATH
    *_SCRIPT *_OPTIONS *_OPTS *_HOME *_CONFIG *_CONFIG_* *_SETTINGS_PATH *_REGISTRY *_MIRROR *_LIBRARY_PATH
    ACP_LAUNCH_* OPENCODE_* GOOSE_MODE IS_SANDBOX *_TRUST_* *_YOLO *_ALLOW_ALL* *_AUTO_APPROVE* *_SKIP_PERMISSIONS*
"""
_SENDING = """
    *_PROXY *_URL *_URLS *_URI *_ENDPOINT *_ENDPOINTS *_ENDPOINT_URL_* *_API_BASE *_API_HOST *_API_SERVER *_ADDR
    *_DSN *_GATEWAY *_WEBHOOK *_AUTHORITY_HOST *_HEADERS OLLAMA_HOST PGHOST PGSERVICEFILE MYSQL_HOST REDIS_HOST
    DOCKER_HOST DOCKER_CONTEXT SSH_AUTH_SOCK HOSTALIASES
    SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE *_CA_BUNDLE *_CA_CERT *_CA_CERTS *_CA_FILE *_CACERT *_CERT_PATH
    PYTHONHTTPSVERIFY NODE_TLS_REJECT_UNAUTHORIZED DENO_CERT DENO_TLS_CA_STORE *_TLS_VERIFY *_SSL_VERIFY
    *_VERIFY_SSL *_SKIP_VERIFY *_INSECURE GOINSECURE
"""
_HARMLESS = """
    GIT_AUTHOR_* GIT_COMMITTER_* GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_LFS_SKIP_SMUDGE NPM_CONFIG_LOGLEVEL
    NPM_CONFIG_FUND NPM_CONFIG_AUDIT NPM_CONFIG_YES NPM_CONFIG_UPDATE_NOTIFIER NPM_CONFIG_PROGRESS PIP_NO_INPUT
    PIP_QUIET PIP_DISABLE_PIP_VERSION_CHECK UV_NO_PROGRESS UV_OFFLINE UV_NO_CONFIG CARGO_TERM_* DOTNET_NOLOGO
    DOTNET_CLI_TELEMETRY_OPTOUT
"""


@cache
def _any_of(names: str) -> re.Pattern[str]:
    """Compile a list of names with `*`. Case does not matter: npm and proxies are read in both cases."""
    return re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in names.split()), re.I | re.S)


def power(variable: str) -> str:
    """Return what setting this variable can do: RUNS, SENDS, or empty if nothing is known."""
    powers = ((_HARMLESS, ""), (_RUNNING, RUNS), (_SENDING, SENDS))
    return next((power for names, power in powers if _any_of(names).fullmatch(variable)), "")


# The values of a profile as the user sees them to decide: all of them, with credentials masked, and with the power of
# each variable. Text that a shell would act on is never masked, so no part of a command can be hidden by looking like a
# credential. Where a program may be named, only certain credentials are masked.
_KEY = r'(?:[A-Za-z_][A-Za-z0-9_-]*|"(?:[^"\\]|\\.)*")'  # as `content` writes it
_LINE = regex(r'(?P<path>(?:[^":]|"(?:[^"\\]|\\.)*")*): (?P<value>.*)')
_NAMED = regex(rf"(?:agent|mcp_servers\.{_KEY})\.(?P<kind>env|headers)\.(?P<name>{_KEY})")
_ACTIVE = regex(r"[$`;|&<>(){}]")  # characters that a shell acts on


class Shown(Struct, frozen=True):
    """A line for the user. `can` is the `power` of the variable that it sets; empty for all else."""

    path: str
    value: str  # JSON, without credentials
    can: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.value}" if self.value else self.path


def shown(line: str) -> Shown:
    """Convert one line of `content` for the user."""
    found = _LINE.fullmatch(line)
    if found is None:
        return Shown(discreet(line), "")
    at, name, can = _NAMED.fullmatch(found["path"]), "", ""
    if at is not None:
        name = json.loads(at["name"]) if at["name"].startswith('"') else at["name"]
        can = power(name) if at["kind"] == "env" else ""
    return Shown(discreet(found["path"]), _discreet_json(found["value"], name), can)


def _discreet_json(text: str, name: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:  # an acceptance of an older version, which masked part of the JSON
        return text
    return json.dumps(discreet(value, name)) if isinstance(value, str) else text


def discreet(text: str, name: str = "") -> str:
    """Mask the credentials in a text. `name` is the variable or header that it is the value of. In any other text, and
    where a program may be named, only certain credentials are masked."""
    is_command = not name or power(name) == RUNS
    for found in reversed(sightings(text, "" if is_command else name)):
        is_meant = found.certainty == "certain" or not (is_command or found.certainty == "placeholder")
        if is_meant and not _ACTIVE.search(text, found.start, found.end):
            text = text[: found.start] + MASK + text[found.end :]
    return text
