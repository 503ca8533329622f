//! Capture filters in the language of pcap-filter(7): they select the frames that are read at all,
//! and those for the packet log.
//!
//! An expression is compiled to a tree that is evaluated over the headers of a frame, with
//! libpcap's meaning: `and` and `or` have equal precedence and group to the left, a word without
//! qualifiers repeats those before it, `vlan` moves the offsets of all later tests past one tag,
//! and ports are compared in the first fragment only. Names that need a lookup (hosts, services)
//! and special tests of link layers are refused with a message.

mod classic;
mod headers;
mod parse;
mod unsupported;

pub use classic::ClassicInstruction;
use gabion_record::IpProto;
use headers::Headers;
use std::fmt;
pub use unsupported::Unsupported;

/// Why an expression is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// What is wrong, in one line.
    pub message: String,
    /// Offset in the expression, in bytes.
    pub at: usize,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at character {})", self.message, self.at + 1)
    }
}

impl std::error::Error for FilterError {}

/// A compiled filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    root: Option<Node>,
}

impl Filter {
    /// Compiles an expression; an empty one matches every frame.
    pub fn compile(text: &str) -> Result<Filter, FilterError> {
        parse::parse(text).map(|root| Filter { root })
    }

    /// Whether a frame of this LINKTYPE matches. `wire_len` is its length before a snap length cut
    /// it.
    pub fn matches(&self, link: u16, wire_len: u32, frame: &[u8]) -> bool {
        match &self.root {
            None => true,
            Some(node) => node.holds(&Subject { link, wire_len, frame }),
        }
    }
}

struct Subject<'a> {
    link: u16,
    wire_len: u32,
    frame: &'a [u8],
}

impl<'a> Subject<'a> {
    fn headers(&self, tags: u8) -> Option<Headers<'a>> {
        Headers::parse(self.link, self.frame, tags)
    }
}

/// A condition, or a combination of conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    /// A header test after this many VLAN tags.
    Test(u8, Test),
}

/// The side that an address or port is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Side {
    Source,
    Destination,
    #[default]
    Either,
    Both,
}

impl Side {
    fn holds(self, source: bool, destination: bool) -> bool {
        match self {
            Side::Source => source,
            Side::Destination => destination,
            Side::Either => source || destination,
            Side::Both => source && destination,
        }
    }
}

/// Layers whose bytes or presence can be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Link,
    Ip,
    Ip6,
    Arp,
    Rarp,
    Transport(IpProto),
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// The layer is present.
    Layer(Layer),
    EtherType(u16),
    /// Protocol of IP, over one version of IP or any.
    Protocol(Option<Layer>, IpProto),
    Mac(Side, [u8; 6]),
    MacGroup {
        broadcast_only: bool,
    },
    /// Address and prefix length, in IP only or in ARP only if `over` says so.
    Net {
        side: Side,
        over: Option<Layer>,
        addr: [u8; 16],
        is_v6: bool,
        prefix: u8,
    },
    Ports {
        side: Side,
        proto: Option<IpProto>,
        from: u16,
        to: u16,
    },
    Vlan(Option<u16>),
    Compare(Value, Relation, Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Equal,
    Differs,
    GreaterOrEqual,
    Greater,
}

/// An arithmetic expression.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(u32),
    Length,
    Bytes { layer: Layer, at: Box<Value>, size: u8 },
    Binary(Box<Value>, Operator, Box<Value>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

impl Node {
    fn holds(&self, s: &Subject<'_>) -> bool {
        match self {
            Node::And(a, b) => a.holds(s) && b.holds(s),
            Node::Or(a, b) => a.holds(s) || b.holds(s),
            Node::Not(a) => !a.holds(s),
            Node::Test(tags, test) => test.holds(s, *tags).unwrap_or(false),
        }
    }
}

impl Test {
    /// `None` if a byte is beyond the frame, which fails the test as in libpcap.
    fn holds(&self, s: &Subject<'_>, tags: u8) -> Option<bool> {
        let h = || s.headers(tags);
        Some(match self {
            Test::Layer(layer) => h()?.has(*layer),
            Test::EtherType(t) => h()?.ether_type == *t,
            Test::Protocol(over, p) => {
                let h = h()?;
                over.is_none_or(|l| h.has(l)) && h.protocols().contains(&Some(*p))
            }
            Test::Mac(side, mac) => {
                let h = h()?;
                let (dst, src) = (h.link_bytes(0, 6)?, h.link_bytes(6, 6)?);
                side.holds(src == mac, dst == mac)
            }
            Test::MacGroup { broadcast_only } => {
                let dst = h()?.link_bytes(0, 6)?;
                if *broadcast_only { dst == [0xff; 6] } else { dst.first()? & 1 == 1 }
            }
            Test::Net { side, over, addr, is_v6, prefix } => {
                let h = h()?;
                if over.is_some_and(|l| !h.has(l)) {
                    return Some(false);
                }
                let (src, dst) = h.addresses(*is_v6)?;
                let inside = |a: &[u8]| in_net(a, addr, *prefix);
                side.holds(inside(src), inside(dst))
            }
            Test::Ports { side, proto, from, to } => {
                let h = h()?;
                if !proto.map_or_else(|| h.has_ports(), |p| h.protocol == Some(p)) {
                    return Some(false);
                }
                let (src, dst) = h.ports()?;
                let inside = |p: u16| (*from..=*to).contains(&p);
                side.holds(inside(src), inside(dst))
            }
            Test::Vlan(id) => {
                let tag = headers::vlan_tag(s.link, s.frame, tags)?;
                id.is_none_or(|id| id == tag)
            }
            Test::Compare(a, relation, b) => {
                let (a, b) = (a.evaluate(s, tags)?, b.evaluate(s, tags)?);
                match relation {
                    Relation::Less => a < b,
                    Relation::LessOrEqual => a <= b,
                    Relation::Equal => a == b,
                    Relation::Differs => a != b,
                    Relation::GreaterOrEqual => a >= b,
                    Relation::Greater => a > b,
                }
            }
        })
    }
}

impl Value {
    fn evaluate(&self, s: &Subject<'_>, tags: u8) -> Option<u32> {
        Some(match self {
            Value::Number(n) => *n,
            Value::Length => s.wire_len.max(u32::try_from(s.frame.len()).unwrap_or(u32::MAX)),
            Value::Bytes { layer, at, size } => {
                let at = usize::try_from(at.evaluate(s, tags)?).ok()?;
                let bytes = s.headers(tags)?.layer_bytes(*layer, at, usize::from(*size))?;
                bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b))
            }
            Value::Binary(a, operator, b) => {
                let (a, b) = (a.evaluate(s, tags)?, b.evaluate(s, tags)?);
                match operator {
                    Operator::Add => a.wrapping_add(b),
                    Operator::Subtract => a.wrapping_sub(b),
                    Operator::Multiply => a.wrapping_mul(b),
                    Operator::Divide => a.checked_div(b)?,
                    Operator::Modulo => a.checked_rem(b)?,
                    Operator::And => a & b,
                    Operator::Or => a | b,
                    Operator::Xor => a ^ b,
                    Operator::ShiftLeft => a.checked_shl(b).unwrap_or(0),
                    Operator::ShiftRight => a.checked_shr(b).unwrap_or(0),
                }
            }
        })
    }
}

fn in_net(addr: &[u8], net: &[u8; 16], prefix: u8) -> bool {
    let (whole, rest) = (usize::from(prefix / 8), prefix % 8);
    let same = addr.get(..whole) == net.get(..whole);
    let mask = !(0xff_u8.checked_shr(rest.into()).unwrap_or(0));
    let last = match (addr.get(whole), net.get(whole)) {
        (Some(a), Some(b)) => a & mask == b & mask,
        _ => rest == 0,
    };
    same && last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame with IPv4 and TCP or UDP.
    fn frame(proto: u8, src: [u8; 4], dst: [u8; 4], ports: (u16, u16), tags: &[u16]) -> Vec<u8> {
        let mut f = vec![0, 1, 2, 3, 4, 5, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf];
        for t in tags {
            f.extend_from_slice(&[0x81, 0]);
            f.extend_from_slice(&t.to_be_bytes());
        }
        f.extend_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 1, 0, 0, 64, proto, 0, 0]);
        f.extend_from_slice(&src);
        f.extend_from_slice(&dst);
        f.extend_from_slice(&ports.0.to_be_bytes());
        f.extend_from_slice(&ports.1.to_be_bytes());
        f.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 1, 0, 0, 0, 0, 0]);
        f
    }

    fn holds(filter: &str, frame: &[u8]) -> bool {
        let f = Filter::compile(filter).unwrap_or_else(|e| panic!("{filter}: {e}"));
        f.matches(1, frame.len() as u32, frame)
    }

    // The results are those of `tcpdump -r` (libpcap 1.10) for the same frames.
    #[test]
    fn a_tcp_frame() {
        let f = frame(6, [10, 0, 0, 1], [192, 168, 1, 2], (40000, 80), &[]);
        for (filter, is) in [
            ("", true),
            ("tcp", true),
            ("udp or icmp", false),
            ("ip and not ip6", true),
            ("port 80", true),
            ("src port 80", false),
            ("tcp dst port 80", true),
            ("udp port 80", false),
            ("port http", true),
            ("host 10.0.0.1", true),
            ("10.0.0.1", true),
            ("src host 10.0.0.1 and dst net 192.168.0.0/16", true),
            ("dst host 10.0.0.1", false),
            ("net 10", true),
            ("net 192.168.1.0 mask 255.255.255.0", true),
            ("src and dst net 10.0.0.0/8", false),
            ("portrange 79-81", true),
            ("src portrange 1-1023", false),
            ("port 22 or 80", true),
            ("not port 22", true),
            ("port 80 and 40000", true),
            ("tcp[13] & 2 != 0", true),
            ("tcp[tcpflags] & (tcp-syn|tcp-ack) == (tcp-syn|tcp-ack)", true),
            ("tcp[tcpflags] & tcp-fin != 0", false),
            ("tcp[0:2] = 40000", true),
            ("ip[8] > 63 && ip[9] = 6", true),
            ("less 54", true),
            ("greater 55", false),
            ("len <= 54", true),
            ("ether host 00:01:02:03:04:05", true),
            ("ether src 00:01:02:03:04:05", false),
            ("ether proto 0x800", true),
            ("ip proto \\tcp", true),
            ("proto 17", false),
            ("vlan", false),
            // Even then the following tests apply after a tag.
            ("not vlan and tcp", false),
            // `and` and `or` have equal precedence: (udp and port 80) or tcp.
            ("udp and port 80 or tcp", true),
            ("tcp or udp and port 81", false),
            ("tcp or (udp and port 81)", true),
            ("arp or ip6", false),
            ("icmp[icmptype] = icmp-echo", false),
            ("ip6 host ::1", false),
        ] {
            assert_eq!(holds(filter, &f), is, "{filter}");
        }
    }

    #[test]
    fn tags_move_the_tests_after_them() {
        let f = frame(17, [10, 0, 0, 1], [192, 168, 1, 2], (53, 53), &[100, 200]);
        for (filter, is) in [
            ("udp", false),
            ("vlan", true),
            ("vlan and udp", false),
            ("vlan 100", true),
            ("vlan 200", false),
            ("vlan 100 and vlan 200", true),
            ("vlan and vlan and udp port 53", true),
        ] {
            assert_eq!(holds(filter, &f), is, "{filter}");
        }
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut f = frame(17, [10, 0, 0, 1], [10, 0, 0, 2], (53, 53), &[]);
        f[21] = 8;
        assert!(holds("udp", &f) && !holds("port 53", &f) && !holds("udp[0:2] = 53", &f));
    }

    #[test]
    fn unsupported_expressions_are_refused() {
        for (filter, part) in [
            ("host example.org", "names are not resolved"),
            ("port nosuch", "names are not resolved"),
            ("wlan type mgt", "`wlan` is not supported"),
            ("mpls 5", "`mpls` is not supported"),
            ("port", "port number is missing"),
            ("tcp and", "ends too early"),
            ("(tcp", "`)` is missing"),
            ("tcp)", "has no `(`"),
            ("port 70000", "not a port"),
            ("net 10.0.0.0/33", "prefix"),
            ("tcp[13", "`]`"),
            ("tcp[0:3] = 1", "1, 2 or 4"),
            ("host 1.2.3.4 5", "`and` or `or`"),
            ("vlan 5000", "VLAN"),
        ] {
            let e = Filter::compile(filter).expect_err(filter);
            assert!(e.message.contains(part), "{filter}: {e}");
        }
    }

    #[test]
    fn any_text_and_any_frame_are_handled() {
        let deep = "(".repeat(5000);
        assert!(Filter::compile(&deep).is_err());
        assert!(Filter::compile(&"not ".repeat(5000)).is_err());
        let long = vec!["port 1"; 5000].join(" or ");
        assert!(Filter::compile(&long).is_err());
        let all = "tcp[13] = 1 or port 1 or host 1.1.1.1 or ip6 net 2000::/3 or ether[20:4] = 5 \
                   or vlan 1 or ether broadcast or icmp6[0] = 1 or arp host 1.2.3.4";
        let f = Filter::compile(all).unwrap();
        let whole = frame(6, [1, 2, 3, 4], [1, 1, 1, 9], (5, 6), &[3]);
        for link in [0, 1, 9, 12, 101, 108, 113, 228, 229, 276, 999] {
            for n in 0..whole.len() {
                f.matches(link, n as u32, &whole[..n]);
            }
        }
    }
}
