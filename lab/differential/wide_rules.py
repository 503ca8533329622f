"""Random rules about everything that Suricata lists: each buffer, frame, transform and event of the protocols of a capture."""
import random_rules
from random_rules import R, content, find_values, list_leaves

# Arguments of the transforms that have some; the others stand alone.
ARGUMENTS = {"pcrexform": ['"([a-z]+)"', '"(.*)/"', '"^(.{3})"'], "xor": ['"0d0a"', '"01"'], "luaxform": random_rules.OF_BUFFERS,
             "from_base64": ["", "mode rfc4648", "bytes 8", "offset 1, mode strict", "mode rfc2045, bytes 12"],
             "gunzip": ["", "max-size 1024"], "zlib_deflate": ["", "max-size 1024"]}
# Where the values of a buffer stand, if not in records of its protocol: by the first part of its name.
SOURCES = {"email": "smtp", "sdp": "sip", "ja3": "tls", "ja3s": "tls", "ja4": "tls", "file": "fileinfo", "http2": "http", "icmpv4": "flow"}
# Protocols of rules for addresses, headers and packets.
PACKET_PROTOS = ["ip", "ip4", "ip6", "ipv4", "ipv6", "icmp", "icmpv4", "icmpv6", "tcp", "udp", "pkthdr", "sctp", "tcp-pkt"]
HEADERS = {"ipv4.hdr": ("ip", 20), "ipv6.hdr": ("ip", 40), "tcp.hdr": ("tcp", 20), "udp.hdr": ("udp", 8), "icmpv4.hdr": ("icmp", 8),
           "icmpv6.hdr": ("icmp", 8), "ip.src": ("ip", 4), "ip.dst": ("ip", 4)}
# Conditions on one protocol's transactions.
OF_PROTOCOL = {
    "http": ["urilen:>5; ", "filesize:>100; ", "fileext:\"html\"; ", "http.response_header; content:\"text\"; ", "filesize:<2000; "],
    "dns": ["dns.opcode:0; ", "dns.rcode:3; ", "dns.rcode:!0; ", "dns.rrtype:1; ", "dns.rrtype:A; ", "dns.opcode:!0; "],
    "tls": ["tls.version:1.2; ", "ssl_version:tls1.2; ", "ssl_state:client_hello; ", "ssl_state:server_hello; ", "tls_cert_expired; ",
            "tls.cert_chain_len:>1; ", "tls_cert_valid; ", "tls_cert_notbefore:>2000; ", "ssl_version:!tls1.3; ", "ssl_state:!unknown; "],
    "ssh": ["ssh.proto; content:\"2.0\"; "],
    "smb": ["smb.version:2; ", "smb.version:1; ", "dcerpc.opnum:0-30; ", "dcerpc.iface:4b324fc8-1670-01d3-1278-5a47bf6ee188; "],
    "dcerpc": ["dcerpc.opnum:0-30; ", "dcerpc.opnum:3; "],
    "nfs": ["nfs_procedure:>2; ", "nfs.version:3; ", "nfs.version:4; ", "nfs_procedure:<8; "],
    "krb5": ["krb5_msg_type:10; ", "krb5_err_code:25; ", "krb5_msg_type:11; ", "krb5.ticket_encryption:weak; "],
    "ike": ["ike.exchtype:34; ", "ike.exchtype:2; ", "ike.nonce_payload_length:>10; ", "ike.key_exchange_payload_length:>10; "],
    "ftp": ["ftp.dynamic_port:>0; ", "ftp.mode:passive; ", "ftp.reply_received:yes; ", "ftp.reply_received:no; ", "ftpbounce; "],
    "ftp-data": ["ftpdata_command:retr; ", "ftpdata_command:stor; ", "filesize:>10; "],
    "dhcp": ["dhcp.leasetime:>0; ", "dhcp.rebinding_time:>0; ", "dhcp.renewal_time:>0; "],
    "websocket": ["websocket.opcode:text; ", "websocket.opcode:!text; ", "websocket.mask:>0; ", "websocket.flags:fin; "],
    "mqtt": ["mqtt.type:CONNECT; ", "mqtt.type:PUBLISH; ", "mqtt.qos:0; ", "mqtt.protocol_version:4; ", "mqtt.reason_code:0; ",
             "mqtt.flags:retain; ", "mqtt.connect.flags:clean_session; ", "mqtt.connack.session_present:yes; ", "mqtt.type:!PUBLISH; "],
    "rfb": ["rfb.sectype:2; ", "rfb.secresult:ok; ", "rfb.sectype:>0; "],
    "ldap": ["ldap.request.operation:bind_request; ", "ldap.responses.operation:search_result_done; ", "ldap.responses.count:>1; ",
             "ldap.responses.result_code:success; ", "ldap.responses.operation:bind_response; "],
    "ntp": ["ntp.version:>2; ", "ntp.mode:3; ", "ntp.mode:4; ", "ntp.stratum:>1; "],
    "snmp": ["snmp.version:2; ", "snmp.version:<3; ", "snmp.pdu_type:0; ", "snmp.pdu_type:2; "],
    "sip": ["sip.stat_code; content:\"200\"; "],
    "modbus": ["modbus:function 3; ", "modbus:access read; ", "modbus:unit 1; ", "modbus:function !1; "],
    "dnp3": ["dnp3_func:read; ", "dnp3_func:response; ", "dnp3_ind:device_restart; ", "dnp3_obj:60,1; "],
    "enip": ["enip.status:0; ", "enip_command:101; ", "cip_service:14; ", "enip.protocol_version:1; ", "enip.cip_class:>0; "],
    "http2": ["http2.frametype:HEADERS; ", "http2.settings:SETTINGS_ENABLE_PUSH=0; ", "http2.window:>0; ", "http2.priority:>0; ",
              "http2.errorcode:NO_ERROR; ", "http2.size_update:>0; "],
    "tftp": [], "pgsql": [], "telnet": [], "rdp": [], "pop3": [], "imap": [], "mdns": [], "bittorrent-dht": [], "quic": [],
}
UDP_PROTOS = {"dns", "ntp", "tftp", "ike", "quic", "dhcp", "mdns", "snmp", "bittorrent-dht"}


class WideRules:
    """Makes the rules for one capture after another."""

    def __init__(self, catalog):
        self.catalog = catalog
        self.plain = [x for x in catalog.transforms if x not in ARGUMENTS]
        self.records, self.protos, self.pieces = [], [], []
        self.buffers, self.events = [], []

    def begin(self, records, pieces):
        """Looks at what Suricata logged about a capture, and at some bytes of it."""
        self.protos = sorted(protos_of(records))
        self.records, self.pieces = records, pieces
        self.buffers = [b for b in self.catalog.buffers if not self.catalog.protos_of(b).isdisjoint(self.protos)]
        logged = {x for e in records if e.get("event_type") == "anomaly" for x in event_conditions(e.get("anomaly", {}))}
        # Events of packets and streams are not logged by default, but counted.
        counted = {x for e in records if e.get("event_type") == "stats" for x in counted_events(e["stats"])}
        known = {"%s:%s; " % (k, x) for k in ("decode-event", "stream-event") for x in self.catalog.events[k]}
        self.events = sorted(logged | counted & known)

    def make(self):
        """Protocol, body and kind of a rule."""
        made = None
        while made is None:
            made = R.choice([self.buffer_rule] * 8 + [self.frame_rule] * 2 + [self.event_rule] * 3 + [self.protocol_rule] * 3 +
                            [self.header_rule] * 3 + [self.packet_rule] * 3 + [self.base64_rule])()
        return made

    def transform(self):
        name = R.choice(self.catalog.transforms)
        argument = R.choice(ARGUMENTS.get(name) or [""])
        return "%s%s; " % (name, ":" + argument if argument else "")

    def condition_on(self, values, kind):
        """A condition on the bytes of a buffer: contents, sizes, expressions, sets."""
        r = R.random()
        if r < .2:
            return R.choice(("bsize:>0; ", "bsize:<20; ", "bsize:>20; ", 'content:!"zqzq"; ', "isdataat:1; ", "isdataat:!100; ")), kind
        if r < .28:
            of_type = R.choice(("string", "string", "md5", "sha256"))
            return "dataset:%s,%s%d,type %s; " % (R.choice(("set", "isset", "isnotset")), of_type, R.randrange(3), of_type), "dataset"
        if r < .36:
            return 'pcre:"/%s/%s"; ' % (R.choice((r"^\w", r"\d+", "[a-z]{3}", r"\.", "^.{1,9}$", "[^ -~]")), R.choice(("", "i", "s"))), kind
        if r < .42:
            return "entropy:value %s %.1f; " % (R.choice((">", "<")), R.uniform(1, 6)), kind + " (entropy)"
        if not values or r < .5:
            piece = R.choice(self.pieces)
            i = R.randrange(len(piece))
            return 'content:"%s"; ' % random_rules.escape(piece[i:i + R.choice((1, 1, 2, 3))]), kind
        return content(R.choice(values)), kind

    def values_of(self, buffer):
        """The values of records that may stand in a buffer."""
        first, last = buffer.split(".")[0], buffer.split(".")[-1]
        event = SOURCES.get(first, first)
        of_event = [e.get(event, e) for e in self.records if e.get("event_type") == event][:200]
        named = sorted({v for e in of_event for v in find_values(e, last) if v})
        if named and R.random() < .7:
            return named
        return sorted({v for e in of_event for v in list_leaves(e) if v})

    def buffer_rule(self):
        if not self.buffers:
            return None
        # Protocols have few or many buffers: each protocol of the capture gets its share.
        proto = R.choice(self.protos)
        mine = [b for b in self.buffers if proto in self.catalog.protos_of(b)]
        if not mine:
            return None
        buffer = R.choice(mine)
        body, kind = (R.choice(random_rules.FLOW) if R.random() < .2 else "") + buffer + "; ", buffer
        if R.random() < .25:
            body += "".join(self.transform() for _ in range(R.choice((1, 1, 2))))
            kind += " + transform"
        condition, kind = self.condition_on(self.values_of(buffer), kind)
        return self.header_of(proto), body + condition, "wide " + kind

    def header_of(self, proto):
        """What a rule about a protocol's transactions says is its protocol."""
        return R.choice((proto, proto, proto, "udp" if proto in UDP_PROTOS else "tcp", "ip"))

    def frame_rule(self):
        mine = [f for f in self.catalog.frames if f.split(".")[0].replace("http1", "http") in self.protos]
        if not mine:
            return None
        frame = R.choice(mine)
        proto = frame.split(".")[0].replace("http1", "http")
        condition, kind = self.condition_on(self.values_of(proto), "frame " + proto)
        return self.header_of(proto), "frame:%s; %s" % (frame, condition), kind

    def event_rule(self):
        """An event that the capture has, or any of its protocols or of packets."""
        if self.events and R.random() < .5:
            condition = R.choice(self.events)
        else:
            keyword = R.choice(list(self.catalog.events))
            names = [x for x in self.catalog.events[keyword]
                     if keyword != "app-layer-event" or "." not in x or x.split(".")[0] in self.protos]
            condition = "%s:%s; " % (keyword, R.choice(names))
        keyword, _, name = condition.partition(":")
        if keyword == "decode-event":
            return R.choice(("pkthdr", "pkthdr", "ip")), condition, keyword
        if keyword == "stream-event":
            return R.choice(("tcp", "ip", "pkthdr")), condition, keyword
        return (name.split(".")[0] if "." in name else "ip"), R.choice(random_rules.FLOW) + condition, keyword

    def base64_rule(self):
        """A condition on what base64 in a buffer or a payload decodes to, from its beginning or after a byte of it."""
        proto = R.choice(self.protos or ["ip"])
        mine = [b for b in self.buffers if proto in self.catalog.protos_of(b)]
        start, kind = (R.choice(mine) + "; ", "buffer") if mine and R.random() < .7 else ("", "payload")
        # Suricata takes them in this order only.
        all_arguments = ("bytes %d" % R.choice((4, 8, 16)), "offset %d" % R.choice((0, 1, 4)))
        arguments = [x for x in all_arguments if R.random() < .5]
        if R.random() < .6:
            piece = R.choice(self.pieces)
            start += R.choice(('content:" "; ', 'content:"="; ', 'content:"|0a|"; ', 'content:"%s"; ' % random_rules.escape(piece[:1])))
            arguments.append("relative")
        decode = "base64_decode%s; " % (":" + ", ".join(arguments) if arguments else "")
        condition = R.choice(("isdataat:1; ", "isdataat:!4; ", 'content:!"zqzq"; ', 'pcre:"/[a-z]/"; ', 'content:"|00|"; ', 'content:"a"; ', "byte_test:1,>,64,0; "))
        return self.header_of(proto), start + decode + "base64_data; " + condition, "base64 " + kind

    def protocol_rule(self):
        mine = [p for p in self.protos if OF_PROTOCOL.get(p)]
        if not mine:
            return None
        proto = R.choice(mine)
        body = R.choice(random_rules.FLOW) + R.choice(OF_PROTOCOL[proto])
        return self.header_of(proto), body, "protocol " + proto

    def header_rule(self):
        """A condition on the bytes of a header."""
        buffer = R.choice(list(HEADERS))
        proto, size = HEADERS[buffer]
        at = R.randrange(size)
        piece = R.choice(self.pieces)
        condition = R.choice((
            'content:"|%02x|"; offset:%d; depth:1; ' % (R.choice((0, 0, 1, 2, 6, 17, 64, 69, 96, 128, 255)), at),
            'content:"%s"; ' % random_rules.escape(piece[:R.choice((1, 2))]), 'content:!"|%02x|"; ' % R.randrange(256),
            "byte_test:1,>,%d,%d; " % (R.randrange(256), at), "byte_test:2,&,%d,%d; " % (1 << R.randrange(16), min(at, size - 2)),
            "bsize:>%d; " % (size - 1), "bsize:%d; " % size, "isdataat:%d; " % size))
        return R.choice((proto, proto, "pkthdr" if proto == "ip" else "ip")), R.choice(("", "", R.choice(random_rules.FLOW))) + buffer + "; " + condition, \
            "header " + buffer

    def packet_rule(self):
        """Conditions on a packet's addresses, fragments, options and kinds, for protocols that rules name seldom."""
        condition, kind = random_rules.condition()
        r = R.random()
        if r < .5:
            condition, kind = R.choice((
                ("itype:%d; " % R.choice((0, 3, 5, 8, 11, 128, 129, 133, 134, 135, 136, 143)), "icmp"), ("icode:%d; " % R.randrange(6), "icmp"),
                ("itype:>%d; " % R.randrange(140), "icmp"), ("icmp_id:%d; " % R.choice((0, 1, 256, 512)), "icmp"), ("icmp_seq:%d; " % R.randrange(3), "icmp"),
                ("icmpv6.mtu:>100; ", "icmp"), ("ipopts:%s; " % R.choice(("rr", "lsrr", "eol", "nop", "ts", "sec", "ssrr", "satid", "any", "esec")), "options"),
                ("ip_proto:%s; " % R.choice(("1", "2", "41", "47", "50", "58", "89", "132", ">60", "<10", "!17")), "ip_proto"),
                ("fragoffset:%s; " % R.choice((">0", "<100", "0", "185")), "fragments"), ("fragbits:%s; " % R.choice(("M", "D", "!M", "+D", "MD", "!D", "*MD")), "fragments"),
                ("geoip:src,US; ", "geoip"), ("tos:%s; " % R.choice(("0", "!0", "16", "x10")), "ip"), ("id:%d; " % R.randrange(4), "ip"),
                ("ttl:%s; " % R.choice(("<5", "1", "255", ">200", "64-128")), "ip"), ("vlan.id:%s; " % R.choice(("1", ">0", "!0", "100,0")), "vlan"),
                ("vlan.layers:>0; ", "vlan"), ("ether.hdr; content:\"|08 00|\"; ", "ether"), ("sameip; ", "ip")))
        return R.choice(PACKET_PROTOS), R.choice(random_rules.FLOW) + condition, "packet " + kind


def protos_of(records):
    """The protocols of a capture that rules are made for."""
    keys = ("app_proto", "app_proto_ts", "app_proto_tc", "app_proto_orig", "app_proto_expected", "event_type")
    return {e.get(k) for e in records for k in keys} & (set(OF_PROTOCOL) | {"smtp"})


def counted_events(stats):
    """The conditions on events that a record of statistics counts."""
    for layer, names in stats.get("decoder", {}).get("event", {}).items():
        for name, n in names.items():
            if n:
                yield "decode-event:%s.%s; " % (layer, name)
    for name, n in find_counters(stats.get("stream", {})):
        if n:
            yield "stream-event:%s; " % name


def find_counters(counters):
    for name, n in counters.items():
        if isinstance(n, dict):
            yield from find_counters(n)
        else:
            yield name, n


def event_conditions(anomaly):
    """The condition on the event of a record."""
    kind, name = anomaly.get("type"), str(anomaly.get("event", ""))
    if kind == "decode" and name.startswith("decoder."):
        yield "decode-event:%s; " % name[len("decoder."):]
    elif kind == "stream" and name.startswith("stream."):
        yield "stream-event:%s; " % name[len("stream."):]
    elif kind == "applayer" and name:
        proto = anomaly.get("app_proto")
        yield "app-layer-event:%s; " % (name.lower() if name.startswith("APPLAYER") or not proto else f"{proto}.{name.lower()}")
