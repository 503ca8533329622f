"""Random rules about a capture, made of what Suricata logged about it, of bytes of the file and of lists.

The rules of a capture depend on the seed, their number, the file's name and bytes and what Suricata logs, so that a capture
given alone with the same seed has the same rules.
"""
import os
import random
import re

R = random.Random()

# Sticky buffer and the key of the record its value stands in, by event type.
BUFFERS = {
    "http": [("http.uri", "url"), ("http.uri.raw", "url"), ("http.host", "hostname"), ("http.user_agent", "http_user_agent"),
             ("http.content_type", "http_content_type"), ("http.method", "http_method"), ("http.stat_code", "status"),
             ("http.protocol", "protocol"), ("http.header", "http_user_agent"), ("http.request_line", "url"),
             ("http.referer", "http_refer"), ("http.host.raw", "hostname"), ("http.request_header", "hostname"),
             ("http.start", "url"), ("http.location", "redirect")],
    "dns": [("dns.query", "rrname"), ("dns.queries.rrname", "rrname"), ("dns.answers.rrname", "rrname")],
    "tls": [("tls.sni", "sni"), ("tls.cert_subject", "subject"), ("tls.cert_issuer", "issuerdn"),
            ("tls.cert_serial", "serial"), ("tls.cert_fingerprint", "fingerprint")],
    "ssh": [("ssh.software", "software_version"), ("ssh.proto", "proto_version")],
    "smtp": [("smtp.helo", "helo"), ("smtp.mail_from", "mail_from"), ("smtp.rcpt_to", "rcpt_to")],
    "ftp": [("ftp.command", "command"), ("ftp.command_data", "command_data"), ("ftp.reply", "reply")],
    "fileinfo": [("file.name", "filename")],
    "sip": [("sip.method", "method"), ("sip.uri", "uri")],
}
# Further buffers, asked only with --wide.
WIDE_BUFFERS = {
    "http": [("http.header_names", "hostname"), ("http.header.raw", "http_user_agent"), ("http.cookie", "url"),
             ("http.accept", "http_content_type"), ("http.server", "http_content_type"), ("http.stat_msg", "status"),
             ("http.response_line", "protocol"), ("http.response_header", "http_content_type"), ("http.request_body", "url"),
             ("http.response_body", "hostname"), ("file.data", "hostname"), ("http.content_len", "length"),
             ("http.connection", "protocol")],
    "dns": [("dns.authorities.rrname", "rrname"), ("dns.additionals.rrname", "rrname"), ("dns.response.rrname", "rrname")],
    "tls": [("tls.certs", "subject"), ("tls.version", "version"), ("tls.alpn", "client_alpns"), ("tls.subjectaltname", "subjectaltname"),
            ("ja3.hash", "hash"), ("ja3s.hash", "hash"), ("ja4.hash", "ja4")],
    "ssh": [("ssh.hassh", "hash"), ("ssh.hassh.string", "string"), ("ssh.hassh.server", "hash")],
    "smtp": [("email.from", "from"), ("email.subject", "subject"), ("email.to", "to"), ("file.name", "filename")],
    "ftp": [("ftp.completion_code", "completion_code")],
    "fileinfo": [("file.data", "filename"), ("file.magic", "magic")],
    "mqtt": [("mqtt.publish.topic", "topic"), ("mqtt.connect.clientid", "client_id"), ("mqtt.subscribe.topic", "topic")],
    "snmp": [("snmp.community", "community")],
    "quic": [("quic.sni", "sni"), ("quic.version", "version")],
    "krb5": [("krb5_cname", "cname"), ("krb5_sname", "sname")],
    "smb": [("smb.share", "share"), ("smb.named_pipe", "named_pipe"), ("file.name", "filename")],
    "rfb": [("rfb.name", "name")],
    "ike": [("ike.init_spi", "init_spi")],
}
PAYLOADS = [b"GET ", b"HTTP/1.", b"\r\n\r\n", b"Host", b"220 ", b"\x16\x03", b"SSH-2.0", b"\x00\x01\x00\x00", b"MAIL",
            b"200 OK", b"text/", b"Content", b"a", b"e", b"com"]
FLOW = ["", "", "flow:established; ", "flow:to_server; ", "flow:to_client; ", "flow:established,to_server; ",
        "flow:established,to_client; ", "flow:to_server,only_stream; ", "flow:no_stream; ", "flow:stateless; "]
TRANSFORMS = ["to_lowercase; ", "strip_whitespace; ", "compress_whitespace; ", "url_decode; ", "dotprefix; ", "to_uppercase; "]
WIDE_TRANSFORMS = TRANSFORMS + ["to_md5; ", "to_sha1; ", "to_sha256; ", 'xor:"0d0a"; ', "header_lowercase; ", "domain; ", "tld; ",
                                'pcrexform:"([a-z]+)"; ', "strip_pseudo_headers; ", "from_base64; ", "to_lowercase; dotprefix; "]
# Conditions without a content, by kind: the share of each kind of difference is read from these names.
CONDITIONS = {
    "dsize": ["dsize:0; ", "dsize:>0; ", "dsize:<100; ", "dsize:100<>400; ", "dsize:>1000; ", "dsize:52; "],
    "flags": ["flags:%s; " % x for x in ("S", "SA", "A", "PA", "F+", "S,12", "!R", "+A", "FA", "*SF")],
    "ip": ["ttl:64; ", "ttl:<65; ", "ttl:>63; ", "ttl:30-70; ", "fragbits:D; ", "fragbits:M; ", "id:0; ", "seq:0; ", "ack:0; ",
           "window:0; ", "tos:0; ", "ipopts:any; ", "ip_proto:6; ", "ip_proto:udp; ", "itype:8; ", "icode:0; ", "tcp.mss:<1500; "],
    "flow counters": ["stream_size:server,>,100; ", "stream_size:both,<,2000; ", "stream_size:either,>,500; ", "flow.age:>0; ",
                      "flow.pkts:toserver,>2; ", "flow.bytes:toclient,>500; ", "flow.pkts:either,<10; "],
    "byte_*": ["byte_test:2,>,100,0; ", "byte_test:1,=,22,0; ", "byte_test:4,&,16,2,big; ", "byte_jump:1,0; isdataat:2,relative; ",
               "byte_test:1,<,128,1; ", "byte_extract:1,0,v; byte_test:1,>=,v,1; ",
               "byte_math:bytes 1,offset 0,oper +,rvalue 1,result w; byte_test:1,<,w,0; "],
    "isdataat": ["isdataat:%s%d; " % (n, i) for n in ("", "!") for i in (1, 10, 50, 300)],
    "pcre": ['pcre:"/%s/%s"; ' % (x, f) for x in ("^GET", r"\d+\.\d", "[a-z]{4}", r"HTTP\/1\.[01]", "(com|org|net)", "^.{0,5}S",
                                                  r"\x00\x01", r"Host\x3a") for f in ("", "i", "s", "R", "im")],
    "threshold": ["threshold:type limit,track by_src,count 1,seconds 60; ", "threshold:type both,track by_dst,count 3,seconds 60; ",
                  "threshold:type threshold,track by_src,count 2,seconds 10; ", "detection_filter:track by_src,count 2,seconds 60; ",
                  "threshold:type limit,track by_flow,count 2,seconds 600; "],
}
WEIGHTS = (15, 15, 20, 10, 10, 10, 10, 10)
# Conditions on what fragments, extension headers, options and sessions look like, asked only with --wide.
WIDE_CONDITIONS = {
    "fragments": ["fragoffset:0; ", "fragoffset:>0; ", "fragbits:!D; ", "fragbits:+M; ", "flow:only_frag; ", "flow:no_frag; "],
    "headers": ["ip_proto:0; ", "ip_proto:44; ", "ip_proto:!6; ", "sameip; ", "icmp_id:0; ", "icmp_seq:0; ", "icmpv6.mtu:>0; ",
                "tcp.wscale:>0; ", 'ipv6.hdr; content:"|60|"; startswith; ', 'ipv4.hdr; content:"|45|"; startswith; ',
                'tcp.hdr; content:"|50|"; ', 'udp.hdr; content:"|00 35|"; ', "tcpv4-csum:invalid; ", "ipv4-csum:valid; ",
                'ip.src; content:"|0a|"; startswith; ', "vlan.layers:0; "],
    "protocol": ["app-layer-protocol:http; ", "app-layer-protocol:!tls; ", "app-layer-protocol:failed; ", "app-layer-protocol:dns,either; ",
                 "app-layer-protocol:tls,final; ", "app-layer-protocol:unknown; "],
    "events": ["decode-event:ipv4.trunc_pkt; ", "decode-event:ipv6.zero_len_padn; ", "decode-event:ipv4.frag_overlap; ",
               "stream-event:3whs_ack_in_wrong_dir; ", "stream-event:est_packet_out_of_window; ", "stream-event:pkt_invalid_ack; ",
               "stream-event:reassembly_seq_gap; ", "stream-event:reassembly_overlap_different_data; ",
               "app-layer-event:applayer_mismatch_protocol_both_directions; ", "app-layer-event:applayer_detect_protocol_only_one_direction; "],
}
EVENTS = {
    "http": ["http.unable_to_match_response_to_request", "http.missing_host_header", "http.invalid_request_line", "http.gzip_decompression_failed"],
    "dns": ["dns.unsolicited_response", "dns.malformed_data", "dns.not_a_request", "dns.z_flag_set"],
    "tls": ["tls.invalid_tls_header", "tls.invalid_record_type", "tls.certificate_missing_element", "tls.invalid_handshake_message"],
    "smtp": ["smtp.no_server_welcome_message", "smtp.invalid_reply", "smtp.tls_rejected"],
    "ssh": ["ssh.invalid_banner", "ssh.long_banner", "ssh.invalid_record"],
}
# Which set of lists is used: None, or the maker of rules about everything that Suricata lists.
wide = None
# Scripts for rules, by the name of their file; some keep a state, some fail.
SCRIPTS = {
    "payload.lua": """local packet = require "suricata.packet"
function init(sig) return {} end
function match(args) local p = packet.get(); return #p:payload() % 2 end
""",
    "tuple.lua": """local packet = require "suricata.packet"
function init(sig) return {} end
function match(args)
    local ipver, src, dst, proto, sp, dp = packet.get():tuple()
    return (sp + dp) % 3 == 0 and 1 or 0
end
""",
    "flow.lua": """local flow = require "suricata.flow"
function init(sig) return {} end
function match(args)
    local tscnt, tsbytes, tccnt, tcbytes = flow.get():stats()
    return tscnt > 2 and 1 or 0
end
""",
    "protocol.lua": """local flow = require "suricata.flow"
function init(sig) return {} end
function match(args)
    local all, ts, tc = flow.get():app_layer_proto()
    return ts == tc and all ~= "unknown" and 1 or 0
end
""",
    "counter.lua": """local n = 0
function init(sig) return {} end
function match(args) n = n + 1; return n % 2 end
""",
    "fails.lua": """function init(sig) return {} end
function match(args) local t = nil; return t.x end
""",
    "uri.lua": """local http = require "suricata.http"
function init(sig) return {} end
function match(args)
    local tx, err = http.get_tx()
    if not tx then return 0 end
    local uri = tx:request_uri_raw()
    return uri and #uri > 5 and 1 or 0
end
""",
    "name.lua": """local dns = require "suricata.dns"
function init(sig) return {} end
function match(args)
    local tx, err = dns.get_tx()
    if not tx then return 0 end
    return tx:rrname() and 1 or 0
end
""",
    "upper.lua": """function transform(input, args) return string.upper(input), #input end
""",
    "half.lua": """function transform(input, args)
    local n = #input // 2
    return string.sub(input, 1, n), n
end
""",
}
OF_PACKETS = ["payload.lua", "tuple.lua", "flow.lua", "protocol.lua", "counter.lua", "fails.lua"]
OF_TRANSACTIONS = {"http": ("http1:request_headers", "uri.lua"), "dns": ("dns:request_complete", "name.lua")}
OF_BUFFERS = ["upper.lua", "half.lua"]
# Hooks of the firewall, by protocol.
HOOKS = {
    "http": ["http1:" + h for d in ("request", "response") for h in
             [d + "_" + x for x in ("started", "line", "headers", "body", "trailer", "complete")]],
    "tls": ["tls:" + h for h in ("client_in_progress", "client_hello_done", "client_cert_done", "client_handshake_done",
                                 "client_finished", "server_in_progress", "server_hello", "server_cert_done",
                                 "server_hello_done", "server_handshake_done", "server_finished")],
    "ssh": ["ssh:" + d + "_" + h for d in ("request", "response")
            for h in ("in_progress", "banner_wait_eol", "banner_done", "finished")],
    "smtp": ["smtp:" + d + "_" + h for d in ("request", "response") for h in ("started", "data", "complete")],
}
FIREWALL_CONDITIONS = ["dsize:>200; ", "dsize:0; ", "flags:R; ", "flags:F+; ", "ttl:<65; ", "flow:established; ", "flow:to_client; ",
                       "flow:not_established; ", "flow.pkts:toserver,>5; ", "ttl:>120; "]
for of in ("dns", "ftp", "sip", "mqtt"):
    HOOKS[of] = [of + ":" + d + "_" + h for d in ("request", "response") for h in ("started", "complete")]


def condition():
    """A condition and its kind."""
    lists, weights = dict(CONDITIONS), list(WEIGHTS)
    if wide:
        lists.update(WIDE_CONDITIONS)
        weights += [15] * len(WIDE_CONDITIONS)
    kind = R.choices(list(lists), weights)[0]
    return R.choice(lists[kind]), kind


def escape(raw):
    return "".join(chr(c) if 32 <= c < 127 and c not in b'";:\\|' else "|%02x|" % c for c in raw)


def find_values(record, key):
    """All values of a key at any depth, as text."""
    if isinstance(record, dict):
        for k, v in record.items():
            if k == key:
                yield from list_leaves(v)
            else:
                yield from find_values(v, key)
    elif isinstance(record, list):
        for v in record:
            yield from find_values(v, key)


def list_leaves(v):
    if isinstance(v, (dict, list)):
        for x in v.values() if isinstance(v, dict) else v:
            yield from list_leaves(x)
    elif isinstance(v, (str, int)) and not isinstance(v, bool):
        yield str(v)


def modifiers(n, start):
    """Modifiers of a content of n bytes that was cut at start."""
    m, r = [], R.random()
    if R.random() < .4:
        m.append("nocase")
    if r < .1:
        m.append("startswith")
    elif r < .2:
        m.append("endswith")
    elif r < .35:
        m.append("depth:%d" % (n + R.choice((0, 0, 1, 5, 50))))
    elif r < .45:
        m.append("offset:%d" % R.choice((0, 1, 2, start, max(0, start - 1))))
    elif r < .55:
        m += ["offset:%d" % R.choice((0, start, max(0, start - 2))), "depth:%d" % (n + R.choice((0, 1, 3)))]
    if R.random() < .15:
        m.append("fast_pattern")
    return m


def content(value):
    """A content that is, or nearly is, part of a value."""
    raw = value.encode("utf-8", "surrogateescape")
    i = R.randrange(len(raw))
    j = min(len(raw), i + R.choice((1, 2, 3, 4, 6, 9, 14, 30)))
    if R.random() < .3:
        i, j = 0, len(raw)
    s = raw[i:j][:200]
    if R.random() < .15:
        s = s.swapcase()
    if R.random() < .08:
        s += b"x"
    m, negation = modifiers(len(s), i), "!" if R.random() < .15 else ""
    kept = "".join(x + "; " for x in m if not (negation and x == "fast_pattern"))
    return 'content:%s"%s"; %s' % (negation, escape(s), kept)


def buffer_rule(values):
    kind_of_event, buffer, value = R.choice(values)
    body, kind = (R.choice(FLOW) if R.random() < .3 else "") + buffer + "; ", buffer
    if R.random() < .1:
        exact = str(len(value.encode("utf-8", "surrogateescape")))
        body += "bsize:%s; " % R.choice((exact, ">%d" % R.randrange(40), "<%d" % R.randrange(2, 60), "2<>40"))
    if R.random() < .15:
        body += R.choice(WIDE_TRANSFORMS if wide else TRANSFORMS)
        kind += " + transform"
    if wide and R.random() < .08:
        name = "d%d" % R.randrange(4)
        body += "dataset:%s,%s,type string; " % (R.choice(("set", "isset", "isnotset")), name)
        kind = "dataset"
    else:
        body += content(value)
    if kind != "dataset" and R.random() < .3:
        loose = re.sub(r"(depth|offset):\d+; |startswith; |endswith; |fast_pattern; ", "", content(value))
        body += loose + R.choice(("", "distance:0; ", "within:40; ", "distance:1; within:30; "))
    if R.random() < .15:
        other_event, other_buffer, other_value = R.choice(values)
        if other_event == kind_of_event:
            body += "%s; %s" % (other_buffer, content(other_value).replace("fast_pattern; ", ""))
            kind = "two buffers"
    if kind_of_event == "http" and R.random() < .1:
        body += R.choice(("urilen:>10; ", "urilen:<30; "))
    proto = "http" if kind_of_event == "fileinfo" else kind_of_event
    return R.choice((proto, proto, "udp" if kind_of_event == "dns" else "ip" if kind_of_event == "sip" else "tcp")), body, kind


def payload_rule(pieces):
    b = R.choice(pieces) if pieces and R.random() < .7 else R.choice(PAYLOADS)
    i = R.randrange(len(b))
    s = b[i:i + R.choice((1, 2, 4, 6, 12, 24))]
    body = R.choice(FLOW) + 'content:"%s"; ' % escape(s) + "".join(x + "; " for x in modifiers(len(s), i))
    kind = "payload"
    if R.random() < .3:
        body += 'content:"%s"; %s' % (escape(R.choice(PAYLOADS)), R.choice(("distance:0; ", "within:100; ", "")))
    if R.random() < .25:
        c, k = condition()
        if not re.search(r"\.hdr;|\.src;", c):
            body += c
            kind = "payload + " + k
    proto = R.choice(("tcp", "udp", "ip", "tcp-pkt", "tcp-stream", "tcp"))
    return proto, body, kind + (" (%s)" % proto if proto.startswith("tcp-") else "")


def bits_rules(n, shares_bits):
    """The bodies of a rule that sets bits, if one is needed, and of one that uses them."""
    (c, k), bit = condition(), "f%d" % (n % 5 if shares_bits else n)
    first = "xbits:set,%s,track ip_src,expire 60; " % bit
    use = R.choice(["flowbits:set,%s; ", "flowbits:isset,%s; ", "flowbits:isnotset,%s; ", "flowbits:toggle,%s; ", "flowint:%s,+,1; ",
                    "xbits:set,%s,track ip_src,expire 60; ", "xbits:isset,%s,track ip_dst; "]) % bit
    if "flowint" in use:
        use += "flowint:%s,>,2; " % bit
    elif "flow" in use:
        first = "flowbits:set,%s; " % bit
    companion = condition()[0] + first + "noalert; " if "isset" in use or "isnotset" in use else None
    return companion, use + c, "bits + " + k


def script_rules(protos, values):
    """The parts of a rule with a script: protocol or hook, body, kind."""
    r = R.random()
    hooked = [OF_TRANSACTIONS[p] for p in protos if p in OF_TRANSACTIONS]
    if values and r < .3:
        event, buffer, value = R.choice(values)
        return event, "%s; luaxform:%s; %s" % (buffer, R.choice(OF_BUFFERS), content(value)), "luaxform"
    if hooked and r < .5:
        hook, script = R.choice(hooked)
        return hook, "lua:%s; " % script, "lua + hook"
    c, k = condition()
    body = R.choice(FLOW) + R.choice(("", c, 'content:"e"; ')) + "lua:%s%s; " % (R.choice(("", "", "!")), R.choice(OF_PACKETS))
    return R.choice(("tcp", "udp", "ip")), body, "lua"


def known_protos(records):
    """The protocols of the capture that rules name."""
    known = {"http", "dns", "tls", "ssh", "smtp", "ftp", "mqtt", "sip"}
    return sorted({e.get("app_proto") for e in records} & known)


def make_firewall(protos, first_sid):
    """Rules of a firewall [(text, kind)]: one that accepts at most hooks, and some that decide before it."""
    rules = []

    def add(action, hook, body):
        sid = first_sid + len(rules)
        head = action + " " + hook + (" any any <> any any " if ":all" in hook else " any any -> any any ")
        rules.append(('%s(%ssid:%d;)' % (head, body, sid), "firewall " + action))

    # Rules of a hook stand together, hooks in the order in which they are reached.
    for hook in ["ip:pre_flow", "tcp:pre_stream", "tcp:all", "udp:all", "icmp:all"] + [h for p in protos for h in HOOKS.get(p, [])]:
        is_early, is_of_packets = ":pre_" in hook, ":pre_" in hook or ":all" in hook
        if R.random() < (.3 if is_of_packets else .06):
            # Suricata 8.0.7 asks rules of the `pre_` tables again in that of packets: those that accept would end it, and alerts stand twice.
            actions = ["drop:flow", "drop:packet"] if is_early else ["accept:flow", "drop:flow"] + (
                ["accept:packet", "drop:packet"] if is_of_packets else ["accept:tx"])
            action = R.choice(actions)
            # What drops without a condition leaves little to compare.
            allowed = [c for c in FIREWALL_CONDITIONS if "flow" not in c] if "pre_flow" in hook else FIREWALL_CONDITIONS
            body = R.choice(allowed) if is_of_packets or action == "drop:flow" else ""
            add(action, hook, body + ("" if is_early else R.choice(("alert; ", ""))))
        if not is_early and R.random() < .98:
            add("accept:hook", hook, R.choice(("alert; ", "")))
    return rules


def make_rules(capture, records, seed, count, shares_bits, acts, scripts=False):
    """Rules [(text, kind)], their sids from 1; companions that set bits have the kind "". `acts`: some of them drop or pass;
    `scripts`: some run a script."""
    R.seed(f"{seed} {os.path.basename(capture)}")
    rules = []

    def add(proto, body, kind, arrow="->"):
        sid, action = len(rules) + 1, "alert"
        if acts and kind and R.random() < .1:
            action, kind = R.choice(("drop", "pass", "reject")), kind + " (acts)"
        rules.append(('%s %s any any %s any any (msg:"r%d"; %ssid:%d;)' % (action, proto, arrow, sid, body, sid), kind))

    buffers = {t: l + (WIDE_BUFFERS.get(t, []) if wide else []) for t, l in BUFFERS.items()}
    if wide:
        buffers.update({t: l for t, l in WIDE_BUFFERS.items() if t not in buffers})
    values = [(t, buffer, v) for t, named in buffers.items() for buffer, key in named
              for v in sorted({v for e in records if e.get("event_type") == t for v in find_values(e.get(t, e), key) if v})]
    protos = known_protos(records)
    file = open(capture, "rb").read()
    pieces = [file[i:i + 40] for i in (R.randrange(24, max(25, len(file) - 40)) for _ in range(60))]
    if wide:
        wide.begin(records, pieces)
    for n in range(count):
        r = R.random()
        if wide and R.random() < .5:
            add(*wide.make())
        elif scripts and R.random() < .3:
            add(*script_rules(protos, values))
        elif wide and r < .04 and set(protos) & set(EVENTS):
            proto = R.choice(sorted(set(protos) & set(EVENTS)))
            add(proto, "app-layer-event:%s; " % R.choice(EVENTS[proto]), "app-layer-event")
        elif values and r < .5:
            add(*buffer_rule(values))
        elif r < .6 and protos:
            c, k = condition()
            add(R.choice(protos), R.choice(FLOW) + c, "app + " + k, R.choice(("->", "->", "<>")))
        elif r < .7:
            c, k = condition()
            add(R.choice(("tcp", "udp", "ip", "icmp", "tcp-pkt", "tcp-stream", "ip", "pkthdr")), R.choice(FLOW) + c, k)
        elif r < .75:
            companion, body, kind = bits_rules(n, shares_bits)
            if companion:
                add("ip", companion, "")
            add("ip", body, kind)
        else:
            add(*payload_rule(pieces))
    return rules
