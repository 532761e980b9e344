"""A backend whose programs read stdin and print; alone in its module, as it does so wherever it is made."""

import os
import subprocess

from tests.secret.backends import Memory


class Draining(Memory):
    """Says what it heard and was given."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        subprocess.run(["echo", "a program's noise"], check=True)
        print("noise")
        heard = subprocess.run(["cat"], stdout=subprocess.PIPE, check=True).stdout
        print(f"heard {heard!r}", flush=True)

    def set_password(self, service: str, username: str, password: str) -> None:
        os.write(1, f"kept {len(password)} characters\n".encode())
