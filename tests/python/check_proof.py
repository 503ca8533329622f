#!/usr/bin/env python3
# check_proof.py PROOF VKEY: checks a proof of `gabion log prove` against the log's public key.
"""Checks a proof of `gabion log prove` against the log's public key.

Written from docs/sealed-log-format.md and the texts of C2SP alone, with Python's own library and
`cryptography` for Ed25519: a second opinion that shares nothing with the program.

    check_proof.py PROOF VKEY      exit code 0: it holds, and the record is printed; 1: it does not
"""

import base64
import hashlib
import json
import struct
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Refused(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Refused(what)


def b64(text):
    return base64.b64decode(text, validate=True)


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def node(left, right):
    return sha(b"\x01", left, right)


def root_from_path(index, size, leaf, path):
    """RFC 9162, 2.1.3.2."""
    need(index < size, "index is not below the size")
    fn, sn, r = index, size - 1, leaf
    for p in path:
        need(sn != 0, "path is too long")
        if fn & 1 or fn == sn:
            r = node(p, r)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            r = node(r, p)
        fn >>= 1
        sn >>= 1
    need(sn == 0, "path is too short")
    return r


class Key:
    """A signed-note verification key of type 1: name, id, Ed25519."""

    def __init__(self, name, public):
        self.name, self.public = name, public
        self.id = sha(name.encode(), b"\n\x01", public)[:4]

    @staticmethod
    def parse(text):
        name, key_id, rest = text.strip().split("+", 2)
        raw = b64(rest)
        need(raw[0] == 1 and len(raw) == 33, "not an Ed25519 verification key")
        key = Key(name, raw[1:])
        need(key.id.hex() == key_id, "the key's id is another's")
        return key

    def signs(self, text, signatures):
        for name, raw in signatures:
            if name == self.name and raw[:4] == self.id:
                try:
                    Ed25519PublicKey.from_public_bytes(self.public).verify(raw[4:], text.encode())
                    return True
                except InvalidSignature:
                    raise Refused("a signature of a known key is wrong") from None
        return False


def note(text):
    """Text and signatures of a signed note."""
    at = text.rindex("\n\n")
    body, lines = text[: at + 1], text[at + 2 :]
    signatures = []
    for line in lines.splitlines():
        dash, name, coded = line.split(" ")
        need(dash == "\u2014", "not a signature line")
        signatures.append((name, b64(coded)))
    return body, signatures


def checkpoint(body):
    origin, size, root = body.split("\n")[:3]
    need(size == str(int(size)), "size is no decimal number")
    return origin, int(size), b64(root)


def chunk_fields(head):
    need(len(head) == 128 and head[:4] == b"GCHK", "not the head of a chunk")
    body_len, index, first, count = struct.unpack(">IQQI", head[4:28])
    return {
        "index": index,
        "first": first,
        "count": count,
        "flags": head[51],
        "root": head[56:88],
        "body_hash": head[96:128],
    }


def chunk_leaf(head, segment_hash):
    return sha(b"\x00", head, segment_hash)


def record_leaf(number, salt, time_ns, kind, flags, source, data):
    return sha(
        b"\x00",
        salt,
        struct.pack(">QQBHH", number, time_ns, kind, flags, len(source)),
        source,
        data,
    )


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def statements(body, count):
    """The records of a chunk in clear."""
    sources, at = varint(body, 0)
    for _ in range(sources):
        at += 3
        at += 1 + body[at]
        at += 1 + body[at]
    lengths = []
    for _ in range(count):
        at += 1
        for _ in range(3):
            _, at = varint(body, at)
        length, at = varint(body, at)
        lengths.append(length)
    for length in lengths:
        yield json.loads(body[at : at + length])
        at += length


def next_key(hop, key, last_size):
    """The key that an epoch announced in the checkpoint it closed with."""
    body, signatures = note(b64(hop["checkpoint"]).decode())
    need(key.signs(body, signatures), "an epoch's closing checkpoint is not signed by its key")
    origin, size, root = checkpoint(body)
    need(origin == key.name and size <= last_size, "a checkpoint of another log or a later size")
    head, announced = b64(hop["chunk"]), b64(hop["body"])
    fields = chunk_fields(head)
    need(fields["index"] + 1 == size and fields["flags"] & 8, "no announcement at the end of the epoch")
    need(sha(announced) == fields["body_hash"], "the announcement differs from its chunk")
    path = [b64(h) for h in hop["path"]]
    leaf = chunk_leaf(head, b64(hop["segment_hash"]))
    need(root_from_path(fields["index"], size, leaf, path) == root, "the announcement is not in the tree")
    for statement in statements(announced, fields["count"]):
        if statement["type"] == "epoch" and statement["end"] == size:
            return Key(key.name, b64(statement["key"]))
    raise Refused("no announcement")


def check(proof, vkey):
    head, _, signed = proof.partition("\n\n")
    lines = head.split("\n")
    need(lines[0] == "c2sp.org/tlog-proof@v1", "not a tlog-proof")
    need(lines[1].startswith("extra ") and lines[2].startswith("index "), "no extra or no index")
    extra = json.loads(b64(lines[1][6:]))
    index = int(lines[2][6:])
    path = [b64(line) for line in lines[3:]]
    body, signatures = note(signed)
    origin, size, root = checkpoint(body)
    key = Key.parse(vkey)
    need(origin == key.name, "the checkpoint is of another log")

    chunk = b64(extra["chunk"])
    fields = chunk_fields(chunk)
    need(fields["index"] == index, "the chunk's head has another index")
    number = extra["record"]
    place = number - fields["first"]
    need(0 <= place < fields["count"], "the record is not of this chunk")
    if "leaf" in extra:
        leaf = b64(extra["leaf"])
    else:
        leaf = record_leaf(
            number,
            b64(extra["salt"]),
            extra["time_ns"],
            extra["kind"],
            extra["flags"],
            b64(extra["source"]),
            b64(extra["bytes"]),
        )
    inner = [b64(h) for h in extra["path"]]
    need(root_from_path(place, fields["count"], leaf, inner) == fields["root"], "the record is not in its chunk")
    outer = chunk_leaf(chunk, b64(extra["segment_hash"]))
    need(root_from_path(index, size, outer, path) == root, "the chunk is not in the tree")

    hops = iter(extra["epochs"])
    while not key.signs(body, signatures):
        hop = next(hops, None)
        need(hop is not None, "the checkpoint is not signed by the key, nor by one that follows from it")
        key = next_key(hop, key, size)
    return extra


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], encoding="utf-8", newline="") as file:
            extra = check(file.read(), sys.argv[2])
    except (Refused, ValueError, KeyError, IndexError, struct.error) as error:
        sys.exit(f"refused: {error}")
    print(f"holds: record {extra['record']}")
    if "bytes" in extra:
        print(b64(extra["bytes"]).decode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main()
