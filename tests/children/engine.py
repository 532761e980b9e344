"""
A container engine in small: `engine.py STATE serve` is its daemon, and any other words are those of a client.

A container is a process of the daemon, so it belongs to no tree of a launch. It goes on after the client, as in podman
and docker, and `--rm` removes it when it ends. `rm -f` alone waits 10 s for one that ignores SIGTERM. What a client
does says the file `mode` in STATE: `down` (it fails), `deaf` (it never answers), `created` (`run` makes the container,
and never starts it), `late` (`run` makes it when `go` is called, for a client that is dead by then). It has all images.
Each client writes its words into the file `calls`. `end` ends all containers.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

STATE, *WORDS = sys.argv[1:]
ADDRESS = f"{STATE}/socket"
WITH_VALUE = ("--label", "-t", "--filter", "--mount", "--workdir", "--user", "--env", "--entrypoint", "--cidfile")
ASKED_SECONDS = 10
FAILED = 125


class Container:
    def __init__(self, labels: list[str]) -> None:
        self.id, self.labels = os.urandom(32).hex(), labels
        self.process: subprocess.Popen[bytes] | None = None


containers: dict[str, Container] = {}
called_go = threading.Event()


def parse(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The options with their values, and the rest."""
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("-"):
        name = words.pop(0)
        options.setdefault(name, []).extend([words.pop(0)] if name in WITH_VALUE else [])
    return options, words


def carry_out(verb: str, words: list[str], mode: str, streams: list[int]) -> tuple[int, str]:
    options, rest = parse(words)
    if verb == "run":
        return run(options, [*options.get("--entrypoint", []), *rest[1:]], mode, streams)
    if verb in ("info", "image"):
        return 0, {"info": "4.3", "image": "sha256:" + "0a" * 32}[verb] + "\n"
    if verb == "go":
        called_go.set()
        return 0, ""
    if verb == "end":
        for each in containers.values():
            end(each, 0)
        return 0, ""
    if verb == "ps":
        (wanted,) = options["--filter"]
        assert "-a" in options, "without it only what runs is listed"
        label = wanted.removeprefix("label=")  # with its value, or any
        found = [each for each in containers.values() if any(f"{has}=".startswith(f"{label}=") for has in each.labels)]
        return 0, "".join(f"{each.id}\n" for each in found)
    if verb == "rm" and "-t" in options:
        return FAILED, "unknown shorthand flag: 't' in -t"
    code = 0
    for name in rest:
        container = containers.get(name)
        if container is None or (verb == "stop" and container.process is None):
            code = 1
            continue
        end(container, float(options.get("-t", [str(ASKED_SECONDS)])[0]))
        if verb == "rm":
            containers.pop(name, None)
    return code, ""


def run(options: dict[str, list[str]], argv: list[str], mode: str, streams: list[int]) -> tuple[int, str]:
    container = Container(options.get("--label", []))
    if mode == "late":
        called_go.wait()
        containers[container.id] = container
        return 0, ""
    if mode == "created":
        containers[container.id] = container
        threading.Event().wait()
    stdin, stdout, stderr = streams
    container.process = subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)
    containers[container.id] = container
    for file in options.get("--cidfile", []):
        Path(file).write_text(container.id)
    for each in streams:
        os.close(each)
    streams.clear()
    code = container.process.wait()
    if "--rm" in options:
        containers.pop(container.id, None)
    return code if code >= 0 else 128 - code, ""


def end(container: Container, seconds: float) -> None:
    if container.process is None:
        return
    container.process.terminate()
    try:
        container.process.wait(seconds)
    except subprocess.TimeoutExpired:
        container.process.kill()
        container.process.wait()


def answer(line: socket.socket) -> None:
    with line:
        said, streams, _, _ = socket.recv_fds(line, 1_000_000, 3)
        verb, words, mode = json.loads(said)
        code, text = carry_out(verb, words, mode, streams)
        for each in streams:
            os.close(each)
        line.sendall(json.dumps([code, text]).encode())


def answer_safely(line: socket.socket) -> None:
    try:
        answer(line)
    except BrokenPipeError:
        return  # the client is dead


def serve() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(ADDRESS)
        listener.listen(64)
        print("up", flush=True)
        while True:
            line, _ = listener.accept()
            threading.Thread(target=answer_safely, args=(line,), daemon=True).start()


def call(verb: str, words: list[str]) -> int:
    with Path(STATE, "calls").open("a") as file:
        file.write(f"{' '.join([verb, *words])}\n")
    mode_file = Path(STATE, "mode")
    mode = mode_file.read_text() if mode_file.exists() else ""
    if mode == "down":
        print("warning: old", "Error: cannot connect to the engine", sep="\n", file=sys.stderr)
        return FAILED
    if mode == "deaf":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            signal.pause()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(ADDRESS)
        socket.send_fds(line, [json.dumps([verb, words, mode]).encode()], [0, 1, 2])
        said = b""
        while chunk := line.recv(65536):
            said += chunk
    code, text = json.loads(said)
    (sys.stderr if code else sys.stdout).write(text)
    return int(code)


if WORDS == ["serve"]:
    serve()
sys.exit(call(WORDS[0], WORDS[1:]))
