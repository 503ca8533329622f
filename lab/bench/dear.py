#!/usr/bin/env python3
# Measures the most expensive packets: those that are made to cost as much work as their bytes allow.
"""Expensive packets: CPU microseconds a packet of each kind, and as a multiple of an ordinary packet's.

  lab/bench/dear.py --rules FILE --ordinary CAPTURE [--binary PATH] [--runs N] [--kinds A,B] [--smoke]

Every capture is TCP or UDP over IPv4 with full packets: some flows of many of them, and flows of one such packet. All outputs are
written, as with `gabion read -l`. The time to load the rules is measured and subtracted. Ends with 1 when a ratio is above
30. The tests bound the same in steps (docs/adversarial.md)."""
import argparse, base64, gzip, os, pathlib, struct, subprocess, sys, tempfile, zlib

from dear_datagrams import DATAGRAMS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
MOST, FULL = 30.0, 1400


def text(value):
    return struct.pack(">H", len(value)) + value


def mqtt(first, body):
    return bytes([first, len(body)]) + body


CONNECT = mqtt(0x10, text(b"MQTT") + b"\4\2\0\x3c" + text(b"a"))
CONNACK = mqtt(0x20, b"\0\0")


def nested(layers, body):
    for _ in range(layers):
        body = gzip.compress(body, 9, mtime=0)
    coding = b", ".join([b"gzip"] * layers)
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
            % (coding, len(body))) + body


SIP = (b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/TCP a\r\nFrom: a\r\nTo: b\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n"
       b"Content-Length: 0\r\n\r\n")
SIP_SMALL = b"A sip:a SIP/2.0\r\n\r\n"
DNS = text(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\1a\0\0\1\0\1")
DNS_EMPTY = text(struct.pack(">HHHHHH", 7, 0x100, 0, 0, 0, 0))

NETBIOS = ">I"


def smb2(command, body, chained=0, answer=0, tree=1):
    """A message of SMB 2 behind its NetBIOS length; `chained` more of the same are compounded with it."""
    def one(following):
        head = struct.pack("<4sHHIHHIIQIIQ16s", b"\xfeSMB", 64, 1, 0, command, 1, answer, following, 1, 0, tree, 1, b"")
        pad = -len(body) % 8
        return head + body + b"\0" * (pad if following else 0)
    size = 64 + len(body) + -len(body) % 8
    whole = one(size) * chained + one(0)
    return struct.pack(NETBIOS, len(whole)) + whole


def http2(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# :method GET, :scheme http, :path /, by the static table.
REQUEST = b"\x82\x86\x84"


def rapid_reset(count):
    return b"".join(one_reset(n) for n in range(count))


def one_reset(n):
    return http2(1, 4, 2 * n + 1, REQUEST) + http2(3, 0, 2 * n + 1, b"\0\0\0\x08")


def one_answered(n):
    """Requests that the client has ended; the same from the server ends and frees their streams."""
    return http2(1, 5, 2 * n + 1, REQUEST)


# A field of 4,000 bytes is put into the table, and named 1,000 times in each later header block.
HPACK_BOMB = (PREFACE + http2(4, 0, 0) + http2(1, 4, 1, REQUEST + b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000)
              + b"".join(http2(1, 5, 2 * n + 3, REQUEST + b"\xbe" * 1000) for n in range(200)))


def ber(tag, *parts):
    body = b"".join(parts)
    size = bytes([len(body)]) if len(body) < 128 else b"\x83" + struct.pack(">I", len(body))[1:]
    return bytes([tag]) + size + body


def deep_filter(depth):
    tree = ber(0x87, b"a")
    for _ in range(depth):
        tree = ber(0xA2, tree)
    return tree


LDAP_SEARCH = ber(0x30, ber(2, b"\1"), ber(0x63, ber(4), ber(10, b"\0"), ber(10, b"\0"), ber(2, b"\0"), ber(2, b"\0"),
                                            ber(1, b"\0"), deep_filter(29), ber(0x30)))
LDAP_ENTRY = ber(0x30, ber(2, b"\1"), ber(0x64, ber(4), ber(0x30)))
LDAP_SMALL = ber(0x30, ber(2, b"\1"), ber(0x63, ber(4), ber(10, b"\0"), ber(10, b"\0"), ber(2, b"\0"), ber(2, b"\0"),
                                           ber(1, b"\0"), ber(0x87, b"a"), ber(0x30)))


def rpc(kind, *words):
    body = struct.pack(">%dI" % (2 + len(words)), 7, kind, *words)
    return struct.pack(">I", 0x80000000 | len(body)) + body


NFS_NULL = rpc(0, 2, 100003, 3, 0, 0, 0, 0, 0)
# A compound of 200 PUTROOTFH.
NFS_COMPOUND = rpc(0, 2, 100003, 4, 1, 0, 0, 0, 0, 0, 0, 200, *([24] * 200))


def modbus(function, data):
    return struct.pack(">HHHBB", 1, 0, 2 + len(data), 1, function) + data


def enip(command, data):
    return struct.pack("<HHII8sI", command, len(data), 1, 0, b"", 0) + data


def pgsql(kind, body):
    return kind + struct.pack(">I", 4 + len(body)) + body


def masked(opcode, body):
    return bytes([opcode, 0x80 | len(body)]) + b"\0\0\0\0" + body


PG_START = struct.pack(">II", 8 + 8, 196608) + b"user\0a\0\0"
UPGRADE = (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n",
           b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\n")
DCE_BIND = bytes.fromhex("05000b0310000000480000000100000000100010000000000100000000000100") + b"\1" * 16 + bytes.fromhex(
    "01000000045d888aeb1cc9119fe808002b10486002000000")
DCE_PART = bytes.fromhex("0500000010000000180000000200000000000000") + b"\0\0\0\0"
KRB_REQUEST = bytes.fromhex("6a2b3029a103020105a20302010aa41d301ba00703050000000000a2031b0161a511180f32303330303130313030303030305a")
KRB = struct.pack(">I", len(KRB_REQUEST)) + KRB_REQUEST

def dnp3(control, body):
    """A frame of the link layer, with a checksum after its header and after each 16 bytes."""
    def checked(part):
        sum_ = 0
        for byte in part:
            sum_ ^= byte
            for _ in range(8):
                sum_ = (sum_ >> 1) ^ 0xA6BC if sum_ & 1 else sum_ >> 1
        return part + struct.pack("<H", ~sum_ & 0xFFFF)
    head = struct.pack("<HBBHH", 0x6405, 5 + len(body), control, 2, 3)
    return checked(head) + b"".join(checked(body[at:at + 16]) for at in range(0, len(body), 16))


DNP3_READ = dnp3(0xC4, b"\xc0\xc0\1\x3c\2\6")
# 1,880 points of a bit each.
DNP3_BITS = dnp3(0x44, b"\xc0\xc0\x81\0\0\1\1\1" + struct.pack("<HH", 0, 1879) + b"\x55" * 236)
# 240 objects without points.
DNP3_OBJECTS = dnp3(0xC4, b"\xc0\xc0\1" + b"\x3c\2\6" * 80)


def rdp(kind, body=b""):
    return struct.pack(">BBHBB5s", 3, 0, 11 + len(body), 6 + len(body), kind, b"") + body


def sized(tag, body):
    return tag + b"\x82" + struct.pack(">H", len(body)) + body


def rdp_connect(blocks):
    def short(body):
        return struct.pack(">H", 0x8000 | len(body)) + body
    conference = b"\0\5\0\x14\x7c\0\1" + short(b"\0\x08\0\x10\0\1\xc0\0Duca" + short(blocks))
    body = b"\4\1\1\4\1\1\1\1\xff" + b"\x30\3\2\1\1" * 3 + sized(b"\4", conference)
    whole = b"\2\xf0\x80" + sized(b"\x7f\x65", body)
    return struct.pack(">BBH", 3, 0, 4 + len(whole)) + whole


RDP_CHANNELS = rdp_connect(struct.pack("<HHI", 0xC003, 8 + 31 * 12, 31) + b"channels\0\0\0\0" * 31)
RDP_BLOCKS = rdp_connect(struct.pack("<HH", 0xC002, 4) * 300)


def cip(services):
    """A packet of several services, each with its place."""
    places, at = b"", 2 + 2 * len(services)
    for service in services:
        places, at = places + struct.pack("<H", at), at + len(service)
    several = b"\x0a\2\x20\2\x24\1" + struct.pack("<H", len(services)) + places + b"".join(services)
    return enip(0x6F, b"\0" * 6 + struct.pack("<HHHHH", 2, 0, 0, 0xB2, len(several)) + several)


CIP_SERVICES = cip([b"\x0e\0"] * 330)
CIP_PATHS = cip([b"\x0e\x20" + b"\x20\1" * 32] * 20)


def smb_write(offset):
    return smb2(9, struct.pack("<HHIQ16sIIHHI", 49, 112, 1, offset, b"F" * 16, 0, 0, 0, 0, 0) + b"x")


# One mebibyte of zeros in a body, and 64 KiB in a message.
ZEROS = gzip.compress(b"\0" * (1 << 20), 9, mtime=0)
GZIP_ANSWER = b"\x88\0\x10content-encoding\4gzip"


def one_gzip(n):
    return http2(1, 4, 2 * n + 1, GZIP_ANSWER) + http2(0, 1, 2 * n + 1, ZEROS)


def deflated(body):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(body) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


WS_ZEROS = masked(0xC2, deflated(b"\0" * 65535))
# A question in the target; later requests name it by the table of fields.
DOH_TARGET = b"/dns-query?dns=" + base64.urlsafe_b64encode(DNS[2:]).rstrip(b"=")
DOH = (PREFACE + http2(4, 0, 0) + http2(1, 5, 1, b"\x82\x87\x44" + bytes([len(DOH_TARGET)]) + DOH_TARGET + b"\x53\x17application/dns-message"))


def one_question(n):
    return http2(1, 5, 2 * n + 3, b"\x82\x87\xbf\xbe")


GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
MANY_HEADERS = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"%x:\n" % n for n in range(1000)) + b"\r\n"
MANY_FOLDS = b"GET / HTTP/1.1\r\nHost: a\r\nF: a\r\n" + b" b\r\n" * 3000 + b"\r\n"
LONG = b"Content-Length: 1000000000\r\n\r\n"

# Name: port, first bytes of the client, first bytes of the server, bytes that one side then repeats (or what makes those
# of each number), which side, and the packets of a long flow, if what they cost ends after this many.
KINDS = {
    "mqtt-ping": (1883, CONNECT, CONNACK, b"\xc0\0", 0),
    "mqtt-ping-alone": (1883, b"\xc0\0", b"", b"\xc0\0", 0),
    "mqtt-publish": (1883, CONNECT, CONNACK, mqtt(0x30, text(b"a") + b"b"), 0),
    "mqtt-publish-acked": (1883, CONNECT, CONNACK, mqtt(0x32, text(b"a") + b"\0\1b"), 0),
    "mqtt-acks": (1883, CONNECT, CONNACK, mqtt(0x40, b"\0\1"), 0),
    "mqtt-subscribe": (1883, CONNECT, CONNACK, mqtt(0x82, b"\0\1" + text(b"a") + b"\0"), 0),
    "mqtt-open": (1883, CONNECT + mqtt(0x32, text(b"a") + b"\0\1b") * 4000, CONNACK, b"\xc0\0", 0),
    "mqtt-open-acks": (1883, CONNECT + mqtt(0x32, text(b"a") + b"\0\1b") * 4000, CONNACK, mqtt(0x40, b"\0\2"), 0),
    "mqtt-unassigned": (1883, CONNECT, CONNACK, b"\0\0", 0),
    "http-pipelined": (80, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                       b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0),
    "http-short": (80, b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"GET / HTTP/1.1\n\n", 0),
    "http-shortest": (80, b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"G\n\n\n", 0),
    "http-answers": (80, b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 2\n\n", 1),
    "http-headers": (80, GET, b"", MANY_HEADERS, 0),
    "http-folds": (80, GET, b"", MANY_FOLDS, 0),
    "http-open": (80, GET * 510 + b"POST / HTTP/1.1\r\n" + LONG, b"", b"x" * FULL, 0),
    "http-open-answers": (80, GET * 510, b"HTTP/1.1 200 OK\r\n" + LONG, b"x" * FULL, 1),
    "sip": (5060, SIP, b"", SIP, 0),
    "sip-short": (5060, SIP_SMALL, b"", SIP_SMALL, 0),
    "dns": (53, DNS, b"", DNS, 0),
    "dns-empty": (53, DNS_EMPTY, b"", DNS_EMPTY, 0),
    "ftp": (21, b"USER a\r\n", b"220 a\r\n331 b\r\n", b"A\r\n", 0),
    "ftp-answers": (21, b"USER a\r\n", b"220 a\r\n331 b\r\n", b"220 \n", 1),
    "smtp": (25, b"EHLO a\r\n", b"220 a\r\n250 b\r\n", b"A\r\n", 0),
    "smb-compounds": (445, smb2(0, b"\x24\0\1\0" + b"\0" * 32 + b"\2\2"), b"", smb2(13, b"\4\0\0\0", 40), 0),
    "smb-echoes": (445, smb2(0, b"\x24\0\1\0" + b"\0" * 32 + b"\2\2"), b"", smb2(13, b"\4\0\0\0"), 0),
    "smb-closes": (445, smb2(0, b"\x24\0\1\0" + b"\0" * 32 + b"\2\2"), b"", smb2(6, b"\x18\0\0\0" + b"\0" * 20), 0),
    "smb-answers": (445, smb2(0, b"\x24\0\1\0" + b"\0" * 32 + b"\2\2"), smb2(0, b"\x41\0\0\0\2\2" + b"\0" * 60, 0, 1),
                    smb2(8, b"\x11\0\x50\0" + b"\0" * 12, 0, 1), 1),
    "dcerpc-parts": (135, DCE_BIND, b"", DCE_PART, 0),
    "http2-resets": (80, PREFACE + http2(4, 0, 0), http2(4, 0, 0), rapid_reset(60), 0),
    "http2-streams": (80, PREFACE + http2(4, 0, 0), http2(4, 0, 0), one_reset, 0, 72),
    "http2-requests": (80, PREFACE + http2(4, 0, 0), http2(4, 0, 0), one_answered, 0, 35),
    "http2-settings": (80, PREFACE + http2(4, 0, 0), http2(4, 0, 0), http2(4, 0, 0), 0),
    "http2-continuations": (80, PREFACE + http2(4, 0, 0) + http2(1, 0, 1, REQUEST), http2(4, 0, 0), http2(9, 0, 1), 0),
    "http2-table": (80, HPACK_BOMB, http2(4, 0, 0), http2(1, 5, 999, REQUEST + b"\xbe" * 1000), 0),
    "ldap-filters": (389, LDAP_SMALL, LDAP_ENTRY, LDAP_SEARCH, 0),
    "ldap-searches": (389, LDAP_SMALL, LDAP_ENTRY, LDAP_SMALL, 0),
    "ldap-entries": (389, LDAP_SMALL, LDAP_ENTRY, LDAP_ENTRY, 1),
    "nfs-nulls": (2049, NFS_NULL, b"", NFS_NULL, 0),
    "nfs-compounds": (2049, NFS_NULL, b"", NFS_COMPOUND, 0),
    "krb5": (88, KRB, b"", KRB, 0),
    "pgsql-queries": (5432, PG_START, pgsql(b"R", b"\0\0\0\0") + pgsql(b"Z", b"I"), pgsql(b"Q", b"a\0"), 0),
    "pgsql-rows": (5432, PG_START, pgsql(b"R", b"\0\0\0\0") + pgsql(b"Z", b"I"), pgsql(b"D", b"\0\0"), 1),
    "pgsql-parameters": (5432, PG_START, pgsql(b"R", b"\0\0\0\0"), pgsql(b"S", b"a\0b\0"), 1),
    "websocket": (80, *UPGRADE, masked(0x82, b""), 0),
    "websocket-parts": (80, *UPGRADE, masked(0x00, b"a"), 0),
    "modbus": (502, modbus(3, b"\0\0\0\1"), b"", modbus(3, b"\0\0\0\1"), 0),
    "enip": (44818, enip(0x65, b"\1\0\0\0"), b"", enip(0x63, b""), 0),
    "rfb": (5900, b"", b"RFB 003.008\n", b"RFB 003.008\n", 0),
    "pop3": (110, b"CAPA\r\n", b"+OK a\r\n+OK b\r\n.\r\n", b"NOOP\r\n", 0),
    "telnet": (23, b"a\r\n", b"\xff\xfd\x18", b"\xff\xf1", 0),
    "dnp3-bits": (20000, DNP3_READ, b"", DNP3_BITS, 1),
    "dnp3-objects": (20000, DNP3_READ, b"", DNP3_OBJECTS, 0),
    "rdp-requests": (3389, rdp(0xE0), rdp(0xD0), rdp(0xE0), 0),
    "rdp-channels": (3389, rdp(0xE0), rdp(0xD0), RDP_CHANNELS, 0),
    "rdp-blocks": (3389, rdp(0xE0), rdp(0xD0), RDP_BLOCKS, 0),
    "cip-services": (44818, enip(0x65, b"\1\0\0\0"), b"", CIP_SERVICES, 0),
    "cip-paths": (44818, enip(0x65, b"\1\0\0\0"), b"", CIP_PATHS, 0),
    "smb-writes": (445, smb2(0, b"\x24\0\1\0" + b"\0" * 32 + b"\2\2"), b"", smb_write, 0),
    "smb-chunks": (445, smb2(0, b"\x24\0\1\0" + b"\0" * 32 + b"\2\2"), b"", lambda n: smb_write(2 * n + 1), 0),
    "http2-gzip": (80, PREFACE + http2(4, 0, 0), http2(4, 0, 0), one_gzip, 1),
    "http2-questions": (80, DOH, http2(4, 0, 0), one_question, 0, 72),
    "websocket-zeros": (80, *UPGRADE, WS_ZEROS, 0),
    "smtp-mails": (25, b"EHLO a\r\n", b"220 a\r\n250 b\r\n", b"MAIL FROM:<a>\r\nRSET\r\n", 0),
}


# Parsers that are off unless they are asked for.
OFF = ["modbus", "enip", "dnp3", "pgsql", "ldap", "telnet", "websocket", "http2", "doh2", "bittorrent-dht", "ike", "rdp", "mdns"]
PARSERS = [word for name in OFF for word in ("--set", f"app-layer.protocols.{name}.enabled=yes")]
PORTS = {"modbus": 502, "dnp3": 20000, "enip": 44818}
PARSERS += [word for name, port in PORTS.items() for word in ("--set", f"app-layer.protocols.{name}.detection-ports.dp={port}")]
# Records that are written only if they are asked for: the second output of the built-in configuration is EVE.
PARSERS += [word for n, name in enumerate(["modbus", "enip", "dnp3", "pgsql"]) for word in ("--set", f"outputs.1.eve-log.types.{90 + n}={name}")]


class Capture:
    """Writes a capture, with increasing times in microseconds."""

    def __init__(self, path):
        self.file, self.now, self.packets = open(path, "wb"), 0, 0
        self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))

    def put(self, source, target, protocol, data):
        self.now += 10
        self.packets += 1
        size = 20 + len(data)
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, size, 0, 0, 64, protocol, 0, source, target)
        second, rest = divmod(self.now, 1_000_000)
        self.file.write(struct.pack("<IIII", 1_700_000_000 + second, rest, size, size) + ip + data)

    def put_datagram(self, number, port, side, data):
        """A datagram of a flow: of the client where the side is 0."""
        hosts, ports = (0x0A000001 + number, 0xC0000201), (40_000, port)
        self.put(hosts[side], hosts[1 - side], 17, struct.pack(">HHHH", ports[side], ports[1 - side], 8 + len(data), 0) + data)


class Session:
    """A TCP session: all data is acknowledged at once, by the other side's next packet."""

    def __init__(self, capture, number, port):
        self.capture, self.hosts, self.port = capture, (0x0A000001 + number, 0xC0000201), port
        self.next = [1000, 5000]
        self.send(0, 2)
        self.next[0] += 1
        self.send(1, 18)
        self.next[1] += 1
        self.send(0, 16)

    def send(self, side, flags, data=b""):
        ports = (40_000, self.port) if side == 0 else (self.port, 40_000)
        numbers = self.next[side] & 0xFFFFFFFF, 0 if flags == 2 else self.next[1 - side] & 0xFFFFFFFF
        tcp = struct.pack(">HHIIBBHHH", *ports, *numbers, 0x50, flags, 65535, 0, 0)
        self.capture.put(self.hosts[side], self.hosts[1 - side], 6, tcp + data)
        self.next[side] += len(data)

    def say(self, side, data):
        for at in range(0, len(data), FULL):
            self.send(side, 24, data[at:at + FULL])
            self.send(1 - side, 16)


def make(path, kind, flows, packets):
    """Writes the capture of a kind; returns the number of its packets."""
    capture = Capture(path)
    most = KINDS.get(kind, ())[5:]
    if most and packets > most[0]:
        flows, packets = flows * packets // most[0], most[0]
    for number in range(flows):
        if kind.startswith("gzip"):
            session = Session(capture, number, 80)
            body = nested(int(kind[4:]), b"\0" * (1 << 20))
            for _ in range(packets):
                session.say(0, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                session.say(1, body)
        elif kind in DATAGRAMS:
            port, first, item, side = DATAGRAMS[kind]
            for whose, data in first:
                capture.put_datagram(number, port, whose, data)
            for n in range(packets):
                capture.put_datagram(number, port, side, item(n) if callable(item) else item)
        else:
            port, client, server, item, side = KINDS[kind][:5]
            session = Session(capture, number, port)
            session.say(0, client)
            session.say(1, server)
            one = item(0) if callable(item) else item
            count = max(1, FULL * packets // len(one))
            session.say(side, b"".join(map(item, range(count))) if callable(item) else item * count)
    return capture.packets


def cpu(argv):
    """CPU seconds of one process that writes into a folder of its own, and the bytes written."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as out:
        process = subprocess.Popen([*argv, "-l", out], stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        if code not in (0, 10):
            output.seek(0)
            raise SystemExit(f"dear: {' '.join(argv)}: exit {code}\n{output.read().decode(errors='replace')}")
        written = sum(f.stat().st_size for f in pathlib.Path(out).rglob("*") if f.is_file())
    return usage.ru_utime + usage.ru_stime, written


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=os.environ.get("GABION", str(TARGET / "release/gabion")))
    a.add_argument("--rules", help="rules to load, such as those of ET")
    a.add_argument("--ordinary", help="a capture of ordinary packets, such as the corpus's bench/mixed, decompressed")
    a.add_argument("--kinds", help="only these, separated by commas")
    a.add_argument("--runs", type=int, default=3)
    a.add_argument("--smoke", action="store_true", help="small captures, no bound")
    o = a.parse_args()
    work = TARGET / "bench"
    work.mkdir(parents=True, exist_ok=True)
    read = [o.binary, "read", "-q", "-k", "none", "--workers", "1", *PARSERS, *(["-S", o.rules] if o.rules else [])]
    flows, packets, runs = (2, 4, 1) if o.smoke else (10, 600, o.runs)

    def best(capture):
        return min(cpu([*read, str(capture)]) for _ in range(runs))

    empty = work / "dear-empty.pcap"
    empty.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
    start, _ = best(empty)
    ordinary = None
    if o.ordinary:
        with open(o.ordinary, "rb") as f:
            f.seek(24)
            count = 0
            while head := f.read(16):
                f.seek(struct.unpack("<I", head[8:12])[0], 1)
                count += 1
        ordinary = (best(o.ordinary)[0] - start) / count
        print(f"start {start:.2f} s; an ordinary packet {ordinary * 1e6:.2f} µs", flush=True)
    worst = 0.0
    shapes = [("long", flows, packets), ("short", flows * 100, 1)]
    for kind in (o.kinds.split(",") if o.kinds else [*KINDS, *DATAGRAMS, "gzip1", "gzip2"]):
        for shape, flows, packets in shapes:
            capture = work / f"dear-{kind}.pcap"
            count = make(capture, kind, flows, packets)
            took, written = best(capture)
            # In short flows all packets count, as an attacker must send them; in long ones of TCP the half with data.
            has_acks = shape == "long" and kind not in DATAGRAMS
            each = (took - start) / (count / 2 if has_acks else count)
            ratio = each / ordinary if ordinary else 0.0
            worst = max(worst, ratio)
            print(f"{kind:20} {shape:5} {count:6} packets {took - start:7.3f} s  {each * 1e6:8.1f} µs a packet  {ratio:6.1f} times"
                  f"  {written / capture.stat().st_size:6.1f} bytes out for one in", flush=True)
            capture.unlink()
    print(f"dear: at most {worst:.1f} times (bound {MOST})")
    return 0 if o.smoke or worst <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
