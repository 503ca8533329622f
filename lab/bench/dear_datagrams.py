"""Kinds of expensive datagrams for `dear.py`: each is as large as a full packet, and asks for as much work as its bytes allow."""
import struct

FULL = 1400


def ber(tag, *parts):
    body = b"".join(parts)
    size = bytes([len(body)]) if len(body) < 128 else b"\x82" + struct.pack(">H", len(body))
    return bytes([tag]) + size + body


def filled(start, item, end=b""):
    """As many items as a full datagram has room for."""
    return start + item * ((FULL - len(start) - len(end)) // len(item)) + end


# A version that nobody knows: frames are read as if nothing was sealed.
UNKNOWN, ONE = b"\x0a\x0a\x0a\x0a", b"\0\0\0\1"


def initial(version, number, body, long_id=True):
    ids = b"\x08" + struct.pack(">Q", number) if long_id else b"\0"
    return b"\xc0" + version + ids + b"\0\0" + struct.pack(">H", 0x4000 | len(body)) + body


QUIC_EMPTY = b"\xc0" + UNKNOWN + b"\0\0\0\0"


def quic_bytes(number):
    """CRYPTO frames of one byte each, with a hole before each: places repeat, so that all that may be kept is kept."""
    start = 1 + number % 16 * 500
    frames = b"".join(b"\6" + struct.pack(">H", 0x4000 | (start + 2 * n)) + b"\1x" for n in range(250))
    return initial(UNKNOWN, 7, frames)


def payload(next_kind, body):
    return struct.pack(">BBH", next_kind, 0, 4 + len(body)) + body


def ike(version, exchange, first, body):
    return b"INITSPI1" + b"\0" * 8 + struct.pack(">BBBBII", first, version, exchange, 8, 0, 28 + len(body)) + body


IKE_CHAIN = ike(0x10, 2, 13, payload(13, b"") * 340 + payload(0, b""))
IKE_VENDORS = ike(0x10, 2, 13, payload(13, b"ab") * 220 + payload(0, b""))
IKE_TRANSFORMS = ike(0x10, 2, 1, payload(0, b"\0\0\0\1\0\0\0\1" + payload(0, b"\1\1\0\x6f" + payload(3, b"\1\1\0\0\x80\1\0\7") * 110
                                                                       + payload(0, b"\1\1\0\0\x80\1\0\7"))))
# Each transform is a weak one, which raises an event.
IKE_WEAK = ike(0x20, 34, 33, payload(0, payload(0, b"\1\1\0\xa1" + payload(3, b"\1\0\0\3") * 160 + payload(0, b"\1\0\0\3"))))

DHT_ID = b"2:id20:abcdefghij0123456789"
DHT_PING = b"d1:ad" + DHT_ID + b"e1:q4:ping1:t2:aa1:y1:qe"
DHT_END = b"e1:t2:aa1:y1:re"

NAME = (b"\x3f" + b"a" * 63) * 3 + b"\x3b" + b"b" * 59 + b"\0"
DNS_QUERY = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\1a\0\0\1\0\1"


def dns(flags, questions, answers, others=0):
    return struct.pack(">HHHHHH", 7, flags, questions, answers, others, 0)


DNS_QUESTIONS = dns(0x100, 225, 0) + b"\1a\0\0\1\0\1" + b"\xc0\x0c\0\1\0\1" * 224
# The name of 255 bytes stands for each record twice, by two pointers.
RECORD = b"\xc0\x0c\0\5\0\1\0\0\0\1\0\2\xc0\x0c"
DNS_ANSWERS = dns(0x8180, 1, 78) + NAME + b"\0\5\0\1" + RECORD * 78
DNS_TEXTS = dns(0x8180, 1, 100) + b"\1a\0\0\x10\0\1" + b"\xc0\x0c\0\x10\0\1\0\0\0\1\0\1\0" * 100
MDNS_ANSWERS = dns(0x8400, 0, 78) + NAME + RECORD[2:] + RECORD * 77

SNMP_VARIABLE = ber(0x30, ber(6, b"\x2b"), ber(5))
SNMP = ber(0x30, ber(2, b"\1"), ber(4, b"public"), ber(0xA0, ber(2, b"\1"), ber(2, b"\0"), ber(2, b"\0"), ber(0x30, SNMP_VARIABLE * 180)))
SIP = b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP a\r\nFrom: a\r\nTo: b\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n"
SIP_MEDIA = b"v=0\r\no=a 1 1 IN IP4 a\r\ns=a\r\nt=0 0\r\n" + b"m=audio 1 RTP/AVP 0\r\na=b\r\n" * 40
# An acknowledgement, of which records have more than of others.
DHCP = b"\2\1\6\0" + b"\0\0\0\7" + b"\0" * 20 + b"\2\0\0\0\0\1" + b"\0" * 202 + b"\x63\x82\x53\x63" + b"\x35\1\5"
KRB_NAME = ber(0xA3, ber(0x30, ber(0xA0, ber(2, b"\1")), ber(0xA1, ber(0x30, ber(0x1B, b"a") * 300))))
KRB = ber(0x6A, ber(0x30, ber(0xA1, ber(2, b"\5")), ber(0xA2, ber(2, b"\x0a")), ber(0xA4, ber(
    0x30, ber(0xA0, ber(3, b"\0\0\0\0\0")), ber(0xA2, ber(0x1B, b"a")), KRB_NAME, ber(0xA5, ber(0x18, b"20300101000000Z")),
    ber(0xA7, ber(2, b"\1")), ber(0xA8, ber(0x30, ber(2, b"\x17") * 100))))))

# Name: port, first datagrams with their sides, the datagram that is then repeated (or what makes it of its number), and its side.
DATAGRAMS = {
    "quic-empty": (443, [(0, initial(UNKNOWN, 7, b""))], QUIC_EMPTY * (FULL // len(QUIC_EMPTY)), 0),
    "quic-forged": (443, [(0, initial(ONE, 7, b"x" * 40))], lambda n: initial(ONE, n, b"x" * 1300), 0),
    "quic-bytes": (443, [(0, initial(UNKNOWN, 7, b""))], quic_bytes, 0),
    "ike-chain": (500, [], IKE_CHAIN, 0),
    "ike-vendors": (500, [], IKE_VENDORS, 0),
    "ike-transforms": (500, [], IKE_TRANSFORMS, 0),
    "ike-weak": (500, [], IKE_WEAK, 0),
    "dht-nested": (6881, [(0, DHT_PING)], b"d1:ad" + DHT_ID + b"1:z" + b"l" * 600 + b"e" * 600 + b"e1:q4:ping1:t2:aa1:y1:qe", 0),
    "dht-lists": (6881, [(0, DHT_PING)], filled(b"d1:ad" + DHT_ID + b"1:zl", b"le", b"ee1:q4:ping1:t2:aa1:y1:qe"), 0),
    "dht-nodes": (6881, [(0, DHT_PING)], b"d1:rd" + DHT_ID + b"5:nodes1300:" + b"A" * 1300 + DHT_END, 0),
    "dht-values": (6881, [(0, DHT_PING)], filled(b"d1:rd" + DHT_ID + b"6:valuesl", b"6:aaaaaa", b"e" + DHT_END), 0),
    "dns-udp": (53, [], DNS_QUERY, 0),
    "dns-questions": (53, [], DNS_QUESTIONS, 0),
    "dns-answers": (53, [(0, DNS_QUERY)], DNS_ANSWERS, 1),
    "dns-texts": (53, [(0, DNS_QUERY)], DNS_TEXTS, 1),
    "mdns-answers": (5353, [], MDNS_ANSWERS, 0),
    "snmp-variables": (161, [], SNMP, 0),
    "sip-headers": (5060, [], filled(SIP, b"a:\r\n", b"\r\n"), 0),
    "sip-media": (5060, [], SIP + b"Content-Type: application/sdp\r\nContent-Length: %d\r\n\r\n" % len(SIP_MEDIA) + SIP_MEDIA, 0),
    "tftp": (69, [], b"\0\1a\0octet\0", 0),
    "dhcp-options": (67, [], filled(DHCP, b"\x0c\1a", b"\xff"), 0),
    "krb5-udp": (88, [], KRB, 0),
}
