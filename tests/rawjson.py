"""JSON as few programs write it and many readers stumble over it, byte for byte, for fuzzing whoever reads lines."""

from collections.abc import Sequence

from hypothesis import strategies as st

DEEP = b"[" * 3000 + b"]" * 3000
SCALARS = (
    *(b"null", b"true", b"0", b"1", b"-0", b"1.0", b"1e999", b"9" * 400, b"9" * 6000),
    *(b'""', b'"a"', b'"\\u0061"', '"é"'.encode(), b'"\\ud83d"', b'"a\\uDE00"', b'"\xff"', b'"\xed\xa0\x80"', b'"\\x"'),
)


def values(*words: bytes) -> st.SearchStrategy[bytes]:
    """Any value, or one of `words`; texts that are no UTF-8, and escapes there are not, are among them."""
    leaves = st.sampled_from([*SCALARS, DEEP, *words])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=2).map(lambda items: b"[" + b",".join(items) + b"]"),
            st.lists(st.tuples(st.sampled_from(SCALARS[-9:]), inner), max_size=2).map(braced),
        ),
        max_leaves=4,
    )


def messages(methods: Sequence[str], *words: bytes) -> st.SearchStrategy[bytes]:
    """JSON-RPC, nearly: ids of any kind, members in any order and twice, `words` among the parameters."""
    value = values(*words)
    id = st.tuples(st.sampled_from([b'"id"', b'"id"', b'"\\u0069d"']), st.sampled_from(SCALARS) | value)
    method = st.tuples(st.just(b'"method"'), st.sampled_from([f'"{name}"'.encode() for name in methods]))
    rest = st.tuples(st.sampled_from([b'"params"', b'"params"', b'"result"', b'"error"', b'"method"', b'"Id"']), value)
    head = st.one_of(st.tuples(id, method), st.tuples(id, method), st.tuples(id), st.tuples(method))
    members = st.tuples(head, st.lists(rest, max_size=3)).flatmap(lambda both: st.permutations([*both[0], *both[1]]))
    return st.builds(
        lambda start, members: start + braced(members),
        st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf", b" "]),
        members,
    )


def braced(members: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b",".join(name + b":" + value for name, value in members) + b"}"
