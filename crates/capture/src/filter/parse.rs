//! Parses the text of a filter to its tree.

use super::{FilterError, Layer, Node, Operator, Relation, Side, Test, Value};
use crate::limits::{FILTER_DEPTH_MAX, FILTER_NODES_MAX};
use gabion_record::IpProto;
use std::net::{Ipv4Addr, Ipv6Addr};

type Parsed<T> = Result<T, FilterError>;

/// Names of numbers inside of comparisons.
const NUMBERS: &[(&str, u32)] = &[
    ("tcpflags", 13),
    ("tcp-fin", 1),
    ("tcp-syn", 2),
    ("tcp-rst", 4),
    ("tcp-push", 8),
    ("tcp-ack", 16),
    ("tcp-urg", 32),
    ("tcp-ece", 64),
    ("tcp-cwr", 128),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-timxceed", 11),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
];

/// Services whose names are known without a lookup.
const PORTS: &[(&str, u16)] = &[
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("tftp", 69),
    ("http", 80),
    ("pop3", 110),
    ("ntp", 123),
    ("imap", 143),
    ("snmp", 161),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("syslog", 514),
];

const PROTOCOLS: &[(&str, IpProto)] = &[
    ("icmp", IpProto::ICMP),
    ("igmp", IpProto::IGMP),
    ("tcp", IpProto::TCP),
    ("udp", IpProto::UDP),
    ("esp", IpProto::ESP),
    ("ah", IpProto::AUTH),
    ("icmp6", IpProto::ICMPV6),
    ("pim", IpProto(103)),
    ("vrrp", IpProto(112)),
    ("sctp", IpProto::SCTP),
];

const ETHER_TYPES: &[(&str, u16)] =
    &[("ip", 0x0800), ("arp", 0x0806), ("rarp", 0x8035), ("ip6", 0x86dd)];

/// Words of pcap-filter that are not supported.
const UNSUPPORTED: &[&str] = &[
    "wlan",
    "mpls",
    "pppoed",
    "pppoes",
    "geneve",
    "vxlan",
    "gateway",
    "decnet",
    "iso",
    "lat",
    "moprc",
    "mopdl",
    "aarp",
    "atalk",
    "ipx",
    "netbeui",
    "stp",
    "fddi",
    "tr",
    "ppp",
    "slip",
    "radio",
    "inbound",
    "outbound",
    "ifname",
    "on",
    "rnr",
    "rulenum",
    "reason",
    "rset",
    "ruleset",
    "srnr",
    "subrulenum",
    "action",
    "protochain",
    "isis",
    "esis",
    "clnp",
    "ifindex",
    "type",
    "subtype",
    "dir",
    "hopcount",
    "lane",
    "oam",
    "oamf4",
    "bcc",
    "sc",
    "ilmic",
    "connectmsg",
    "metaconnect",
    "vpi",
    "vci",
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Sign(&'static str),
}

/// The qualifiers that a word without its own repeats from those before it.
#[derive(Clone, Copy, Debug, Default)]
struct Qualifiers {
    layer: Option<Layer>,
    side: Option<Side>,
    kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

struct Reader<'a> {
    tokens: Vec<(Token<'a>, usize)>,
    at: usize,
    end: usize,
    last: Qualifiers,
    tags: u8,
    nodes: usize,
    depth: usize,
}

pub(super) fn parse(text: &str) -> Parsed<Option<Node>> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Ok(None);
    }
    let mut r = Reader {
        tokens,
        at: 0,
        end: text.len(),
        last: Qualifiers::default(),
        tags: 0,
        nodes: 0,
        depth: 0,
    };
    let root = r.expression()?;
    match r.peek() {
        None => Ok(Some(root)),
        Some(Token::Sign(")")) => r.fail("this `)` has no `(`"),
        Some(_) => r.fail("`and` or `or` is missing before this"),
    }
}

const SIGNS: [&str; 24] = [
    "&&", "||", "<<", ">>", "<=", ">=", "==", "!=", "(", ")", "[", "]", "!", "&", "|", "^", "<",
    ">", "=", "+", "*", "/", "%", ":",
];

fn tokens(text: &str) -> Parsed<Vec<(Token<'_>, usize)>> {
    let mut out: Vec<(Token<'_>, usize)> = Vec::new();
    let mut at = 0;
    // `:` separates only inside of brackets, `/` and `-` only outside of words.
    let mut in_brackets = 0u32;
    while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let is_word = |c: char| {
            c.is_ascii_alphanumeric()
                || matches!(c, '.' | '_' | '\\')
                || (c == '-')
                || (in_brackets == 0 && matches!(c, ':' | '/'))
        };
        let starts_word = first.is_ascii_alphanumeric() || matches!(first, '\\' | ':' | '_' | '.');
        if starts_word && !(first == ':' && in_brackets > 0) {
            let len = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            out.push((Token::Word(&rest[..len]), at));
            at += len;
            continue;
        }
        if first == '-' {
            out.push((Token::Sign("-"), at));
            at += 1;
            continue;
        }
        let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) else {
            return Err(FilterError { message: format!("unexpected character `{first}`"), at });
        };
        in_brackets = match *sign {
            "[" => in_brackets + 1,
            "]" => in_brackets.saturating_sub(1),
            _ => in_brackets,
        };
        out.push((Token::Sign(sign), at));
        at += sign.len();
    }
    Ok(out)
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|t| t.0.clone())
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |t| t.1)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(FilterError { message: message.into(), at: self.offset() })
    }

    fn word(&self) -> Option<&'a str> {
        match self.peek()? {
            Token::Word(w) => Some(w),
            Token::Sign(_) => None,
        }
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let is = match self.peek() {
            Some(Token::Word(w)) => words.contains(&w),
            Some(Token::Sign(s)) => words.contains(&s),
            None => false,
        };
        self.at += usize::from(is);
        is
    }

    fn node(&mut self, node: Node) -> Parsed<Node> {
        self.nodes += 1;
        if self.nodes > FILTER_NODES_MAX {
            return self.fail(format!("the filter has more than {FILTER_NODES_MAX} conditions"));
        }
        Ok(node)
    }

    fn test(&mut self, test: Test) -> Parsed<Node> {
        let tags = self.tags;
        self.node(Node::Test(tags, test))
    }

    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return self.fail("the filter is nested too deeply");
        }
        let done = f(self);
        self.depth -= 1;
        done
    }

    fn expression(&mut self) -> Parsed<Node> {
        let mut left = self.term()?;
        loop {
            let is_and = self.takes(&["and", "&&"]);
            if !is_and && !self.takes(&["or", "||"]) {
                return Ok(left);
            }
            let right = self.term()?;
            let (a, b) = (Box::new(left), Box::new(right));
            left = self.node(if is_and { Node::And(a, b) } else { Node::Or(a, b) })?;
        }
    }

    fn term(&mut self) -> Parsed<Node> {
        if self.takes(&["not", "!"]) {
            let inner = self.deeper(Self::term)?;
            return self.node(Node::Not(Box::new(inner)));
        }
        if self.peek() == Some(Token::Sign("(")) && !self.is_arithmetic() {
            self.at += 1;
            let inner = self.deeper(Self::expression)?;
            if !self.takes(&[")"]) {
                return self.fail("a `)` is missing");
            }
            return Ok(inner);
        }
        if self.peek().is_none() {
            return self.fail("the filter ends too early");
        }
        if self.is_arithmetic() {
            return self.comparison();
        }
        self.primitive()
    }

    /// Whether a comparison of numbers begins here: a relation comes before the next connective
    /// outside of brackets.
    fn is_arithmetic(&self) -> bool {
        let mut depth = 0i32;
        for (token, _) in self.tokens.get(self.at..).unwrap_or(&[]) {
            match token {
                Token::Word("and" | "or" | "not") | Token::Sign("&&" | "||" | "!") => {
                    return false;
                }
                Token::Sign("[" | "(") => depth += 1,
                Token::Sign("]" | ")") => {
                    depth -= 1;
                    if depth < 0 {
                        return false;
                    }
                }
                Token::Sign("<" | ">" | "<=" | ">=" | "=" | "==" | "!=") => return depth == 0,
                Token::Word(_) | Token::Sign(_) => {}
            }
        }
        // An open bracket without its end is reported as arithmetic.
        matches!(self.tokens.get(self.at + 1), Some((Token::Sign("["), _)))
    }

    fn comparison(&mut self) -> Parsed<Node> {
        let left = self.value(0)?;
        let relation = match self.peek() {
            Some(Token::Sign("<")) => Relation::Less,
            Some(Token::Sign("<=")) => Relation::LessOrEqual,
            Some(Token::Sign("=" | "==")) => Relation::Equal,
            Some(Token::Sign("!=")) => Relation::Differs,
            Some(Token::Sign(">=")) => Relation::GreaterOrEqual,
            Some(Token::Sign(">")) => Relation::Greater,
            _ => return self.fail("a comparison operator is missing"),
        };
        self.at += 1;
        let right = self.value(0)?;
        self.test(Test::Compare(left, relation, right))
    }

    /// Parses a value with operators above the precedence `least`.
    fn value(&mut self, least: u8) -> Parsed<Value> {
        let mut left = self.deeper(Self::factor)?;
        loop {
            let (operator, strength) = match self.peek() {
                Some(Token::Sign("|")) => (Operator::Or, 1),
                Some(Token::Sign("^")) => (Operator::Xor, 1),
                Some(Token::Sign("&")) => (Operator::And, 2),
                Some(Token::Sign("<<")) => (Operator::ShiftLeft, 3),
                Some(Token::Sign(">>")) => (Operator::ShiftRight, 3),
                Some(Token::Sign("+")) => (Operator::Add, 4),
                Some(Token::Sign("-")) => (Operator::Subtract, 4),
                Some(Token::Sign("*")) => (Operator::Multiply, 5),
                Some(Token::Sign("/")) => (Operator::Divide, 5),
                Some(Token::Sign("%")) => (Operator::Modulo, 5),
                _ => return Ok(left),
            };
            if strength <= least {
                return Ok(left);
            }
            self.at += 1;
            let right = self.value(strength)?;
            self.nodes += 1;
            if self.nodes > FILTER_NODES_MAX {
                return self
                    .fail(format!("the filter has more than {FILTER_NODES_MAX} conditions"));
            }
            left = Value::Binary(Box::new(left), operator, Box::new(right));
        }
    }

    fn factor(&mut self) -> Parsed<Value> {
        if self.takes(&["("]) {
            let inner = self.value(0)?;
            if !self.takes(&[")"]) {
                return self.fail("a `)` is missing");
            }
            return Ok(inner);
        }
        let Some(word) = self.word() else { return self.fail("a number is missing") };
        if word == "len" {
            self.at += 1;
            return Ok(Value::Length);
        }
        if let Some((_, n)) = NUMBERS.iter().find(|(name, _)| *name == word) {
            self.at += 1;
            return Ok(Value::Number(*n));
        }
        if let Some(n) = number(word) {
            self.at += 1;
            return Ok(Value::Number(n));
        }
        let Some(layer) = layer(word) else {
            return self.fail(format!("`{word}` is neither a number nor a protocol"));
        };
        self.at += 1;
        if !self.takes(&["["]) {
            return self.fail("a `[` is missing");
        }
        let at = self.value(0)?;
        let mut size = 1;
        if self.takes(&[":"]) {
            size = match self.word().and_then(number) {
                Some(n @ (1 | 2 | 4)) => n as u8,
                _ => return self.fail("a comparison needs 1, 2 or 4 bytes"),
            };
            self.at += 1;
        }
        if !self.takes(&["]"]) {
            return self.fail("a `]` is missing");
        }
        Ok(Value::Bytes { layer, at: Box::new(at), size })
    }

    fn primitive(&mut self) -> Parsed<Node> {
        let Some(word) = self.word() else { return self.fail("a condition is missing") };
        match word {
            "less" | "greater" => {
                self.at += 1;
                let Some(n) = self.word().and_then(number) else {
                    return self.fail("a length is missing");
                };
                self.at += 1;
                let relation = match word {
                    "less" => Relation::LessOrEqual,
                    _ => Relation::GreaterOrEqual,
                };
                return self.test(Test::Compare(Value::Length, relation, Value::Number(n)));
            }
            "vlan" => {
                self.at += 1;
                let id = self.word().and_then(number);
                if id.is_some_and(|n| n > 4095) {
                    return self.fail("the VLAN id is not in 0 to 4095");
                }
                self.at += usize::from(id.is_some());
                let node = self.test(Test::Vlan(id.map(|n| n as u16)))?;
                // The tests after it apply after the tag.
                self.tags = self.tags.saturating_add(1);
                return Ok(node);
            }
            "broadcast" | "multicast" => {
                self.at += 1;
                return self.test(Test::MacGroup { broadcast_only: word == "broadcast" });
            }
            _ if UNSUPPORTED.contains(&word) => {
                return self.fail(format!("`{word}` is not supported"));
            }
            _ => {}
        }
        let mut q = Qualifiers { layer: layer(word), ..Qualifiers::default() };
        let layer_word = q.layer.map(|_| word);
        self.at += usize::from(q.layer.is_some());
        q.side = self.side()?;
        let kind = self.word().and_then(|w| match w {
            "host" => Some(Kind::Host),
            "net" => Some(Kind::Net),
            "port" => Some(Kind::Port),
            "portrange" => Some(Kind::PortRange),
            "proto" => Some(Kind::Proto),
            _ => None,
        });
        self.at += usize::from(kind.is_some());
        q.kind = kind;
        if q.layer.is_some() && q.side.is_none() && kind.is_none() {
            let next = self.word();
            if matches!(next, Some("broadcast" | "multicast")) {
                return self.group(q.layer);
            }
            let is_id = next.is_some_and(|w| !matches!(w, "and" | "or"));
            if !is_id {
                let layer = q.layer.unwrap_or(Layer::Link);
                return match layer {
                    Layer::Link => self.fail(format!(
                        "a qualifier is missing after `{}`",
                        layer_word.unwrap_or("ether")
                    )),
                    layer => self.test(Test::Layer(layer)),
                };
            }
        }
        if q.layer.is_none() && q.side.is_none() && kind.is_none() {
            q = self.last;
        }
        self.last = q;
        self.identifier(q)
    }

    fn group(&mut self, layer: Option<Layer>) -> Parsed<Node> {
        let word = self.word();
        if layer == Some(Layer::Link) {
            self.at += 1;
            return self.test(Test::MacGroup { broadcast_only: word == Some("broadcast") });
        }
        let (addr, is_v6, prefix) = match (layer, word) {
            (Some(Layer::Ip), Some("multicast")) => (224, false, 4),
            (Some(Layer::Ip6), Some("multicast")) => (255, true, 8),
            _ => return self.fail("the network's broadcast address is unknown"),
        };
        self.at += 1;
        let mut net = [0; 16];
        net[0] = addr;
        self.test(Test::Net { side: Side::Destination, over: layer, addr: net, is_v6, prefix })
    }

    fn side(&mut self) -> Parsed<Option<Side>> {
        let first = match self.word() {
            Some("src") => Side::Source,
            Some("dst") => Side::Destination,
            _ => return Ok(None),
        };
        self.at += 1;
        let joined = self.tokens.get(self.at + 1).map(|t| &t.0);
        let other = matches!(joined, Some(Token::Word("src" | "dst")));
        let connective = self.word();
        if other && matches!(connective, Some("or" | "and")) {
            self.at += 2;
            return Ok(Some(if connective == Some("or") { Side::Either } else { Side::Both }));
        }
        Ok(Some(first))
    }

    fn identifier(&mut self, q: Qualifiers) -> Parsed<Node> {
        let side = q.side.unwrap_or_default();
        let missing = match q.kind {
            Some(Kind::Port | Kind::PortRange) => "a port number is missing",
            Some(Kind::Proto) => "a protocol is missing",
            _ => "an address is missing",
        };
        let Some(word) = self.word() else { return self.fail(missing) };
        if matches!(word, "and" | "or") {
            return self.fail(missing);
        }
        if UNSUPPORTED.contains(&word) {
            return self.fail(format!("`{word}` is not supported"));
        }
        let test = match q.kind {
            Some(Kind::Port) => {
                let port = self.port(word)?;
                Test::Ports { side, proto: self.transport(q)?, from: port, to: port }
            }
            Some(Kind::PortRange) => {
                let Some((from, to)) = word.split_once('-') else {
                    return self.fail("write a range of ports as FIRST-LAST");
                };
                let (from, to) = (self.port(from)?, self.port(to)?);
                let proto = self.transport(q)?;
                Test::Ports { side, proto, from: from.min(to), to: from.max(to) }
            }
            Some(Kind::Proto) => self.protocol(q, word)?,
            Some(Kind::Net) => self.net(q, side, word)?,
            Some(Kind::Host) | None => self.host(q, side, word)?,
        };
        self.at += 1;
        if let Test::Net { addr, is_v6: false, prefix, .. } = &test
            && q.kind == Some(Kind::Net)
            && self.takes(&["mask"])
        {
            let addr = *addr;
            let _ = prefix;
            return self.masked(q, side, addr);
        }
        self.test(test)
    }

    fn masked(&mut self, q: Qualifiers, side: Side, addr: [u8; 16]) -> Parsed<Node> {
        let mask = self.word().and_then(|w| w.parse::<Ipv4Addr>().ok()).map(u32::from);
        let Some(mask) = mask.filter(|m| m.leading_ones() + m.trailing_zeros() >= 32) else {
            return self.fail("the mask is missing or not contiguous");
        };
        self.at += 1;
        let prefix = mask.leading_ones() as u8;
        self.test(Test::Net { side, over: q.layer, addr, is_v6: false, prefix })
    }

    fn transport(&self, q: Qualifiers) -> Parsed<Option<IpProto>> {
        match q.layer {
            None => Ok(None),
            Some(Layer::Transport(p)) if p.has_ports() => Ok(Some(p)),
            Some(_) => self.fail("only tcp, udp and sctp have ports"),
        }
    }

    fn port(&self, word: &str) -> Parsed<u16> {
        let word = word.trim_start_matches('\\');
        if let Some((_, port)) = PORTS.iter().find(|(n, _)| *n == word) {
            return Ok(*port);
        }
        match number(word) {
            Some(n) => match u16::try_from(n) {
                Ok(port) => Ok(port),
                Err(_) => self.fail(format!("{n} is not a port")),
            },
            None => self.fail(format!("`{word}`: names are not resolved: write the number")),
        }
    }

    fn protocol(&self, q: Qualifiers, word: &str) -> Parsed<Test> {
        let word = word.trim_start_matches('\\');
        if q.layer == Some(Layer::Link) {
            let named = ETHER_TYPES.iter().find(|(n, _)| *n == word).map(|(_, t)| *t);
            let Some(t) = named.or_else(|| number(word).and_then(|n| u16::try_from(n).ok())) else {
                return self.fail(format!("`{word}` is not an Ethernet type"));
            };
            return Ok(Test::EtherType(t));
        }
        let named = PROTOCOLS.iter().find(|(n, _)| *n == word).map(|(_, p)| *p);
        let numbered = || number(word).and_then(|n| u8::try_from(n).ok()).map(IpProto);
        match named.or_else(numbered) {
            Some(p) => Ok(Test::Protocol(q.layer, p)),
            None => self.fail(format!("`{word}` is not an IP protocol")),
        }
    }

    fn host(&self, q: Qualifiers, side: Side, word: &str) -> Parsed<Test> {
        if let Some(mac) = mac(word) {
            return Ok(Test::Mac(side, mac));
        }
        // libpcap treats a network instead of a host as `net`.
        if q.kind.is_none() && (word.contains('/') || is_short(word)) {
            return self.net(q, side, word);
        }
        let Some((addr, is_v6)) = address(word) else {
            return self.fail(format!("`{word}`: names are not resolved: write the address"));
        };
        let prefix = if is_v6 { 128 } else { 32 };
        Ok(Test::Net { side, over: over(q), addr, is_v6, prefix })
    }

    fn net(&self, q: Qualifiers, side: Side, word: &str) -> Parsed<Test> {
        let (text, prefix) = match word.split_once('/') {
            Some((text, prefix)) => (text, Some(prefix)),
            None => (word, None),
        };
        let short = short_address(text);
        let Some((addr, is_v6)) = short.map(|(a, _)| (a, false)).or_else(|| address(text)) else {
            return self.fail(format!("`{text}`: names are not resolved: write the address"));
        };
        let most: u8 = if is_v6 { 128 } else { 32 };
        let prefix = match prefix {
            Some(p) => match p.parse::<u8>().ok().filter(|p| *p <= most) {
                Some(p) => p,
                None => return self.fail(format!("`{p}` is not a prefix length")),
            },
            None => short.map_or(most, |(_, bytes)| bytes * 8),
        };
        Ok(Test::Net { side, over: over(q), addr, is_v6, prefix })
    }
}

/// The layer that an address must belong to, if the qualifier names one that has addresses.
fn over(q: Qualifiers) -> Option<Layer> {
    q.layer.filter(|l| *l != Layer::Link)
}

fn layer(word: &str) -> Option<Layer> {
    Some(match word {
        "ether" | "link" => Layer::Link,
        "ip" => Layer::Ip,
        "ip6" => Layer::Ip6,
        "arp" => Layer::Arp,
        "rarp" => Layer::Rarp,
        _ => {
            let (_, p) = PROTOCOLS.iter().find(|(n, _)| *n == word)?;
            Layer::Transport(*p)
        }
    })
}

fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok())?,
    }
}

fn address(word: &str) -> Option<([u8; 16], bool)> {
    if let Ok(v4) = word.parse::<Ipv4Addr>() {
        let mut addr = [0; 16];
        addr[..4].copy_from_slice(&v4.octets());
        return Some((addr, false));
    }
    word.parse::<Ipv6Addr>().ok().map(|v6| (v6.octets(), true))
}

/// `10`, `10.1` or `10.1.2`: a network by its first bytes.
fn short_address(word: &str) -> Option<([u8; 16], u8)> {
    let mut addr = [0; 16];
    let mut parts = 0;
    for part in word.split('.') {
        *addr.get_mut(parts)? = part.parse().ok()?;
        parts += 1;
    }
    (parts < 4).then_some((addr, parts as u8))
}

fn is_short(word: &str) -> bool {
    short_address(word).is_some()
}

fn mac(word: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = 0;
    for part in word.split(':') {
        if part.is_empty() || part.len() > 2 {
            return None;
        }
        *mac.get_mut(parts)? = u8::from_str_radix(part, 16).ok()?;
        parts += 1;
    }
    (parts == 6).then_some(mac)
}
