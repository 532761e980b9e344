"""
Secrets: how they are referenced, where they are stored, and how they stay out of every output.

In comes text of a profile with `${…}` references (`value`), or a name to set. Out come `Secret` values for a
child's environment (`lookup`) and redacted text and bytes for every output (`redact`). Open `value` first, then
`lookup`.

    value           the `${…}` grammar; `Secret`, and the interface of every store: `Store`, `Outcome`, `StoreFault`
    stores          `STORES`: a row for each store that the user can choose
    lookup          reads all secrets of a launch in one pass; the index of stored names
    keyring         the store `keyring`: its choice, and the backends of the keyring library
    sealed          the format and the cryptography of the sealed file
    sealedfile      the store `file`, its passphrase and its key file
    command         the store `command`: a program that prints a value
    hidden_input    a prompt on the terminal without echo
    isolate         threads and descriptors for foreign code that may hang, print or raise anything
    detect          text that looks like a credential
    forms           the encodings in which a value may appear
    redact          the redactor, for text, bytes, JSON and streams
"""
