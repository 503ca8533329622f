//! Filters as programs of classic BPF, which the kernel runs on every frame of an interface before it copies it
//! (Documentation/networking/filter.rst).
//!
//! The program gives the answer of [`Filter::matches`] for the frame as it is handed out. The kernel takes the outer
//! VLAN tag out of a frame before filters see it, and keeps it apart; so the program is made twice, once for frames
//! without such a tag and once for frames with one, where later bytes stand four further to the front. A byte beyond
//! the frame fails its test only: each load is preceded by a look at the length.

use super::headers::{ETHER_ARP, ETHER_IP, ETHER_IP6, ETHER_RARP, ETHER_TAGS};
use super::unsupported::Unsupported;
use super::{Filter, Layer, Node, Operator, Relation, Side, Test, Value};
use crate::limits::CLASSIC_INSTRUCTIONS_MAX;
use gabion_record::IpProto;

/// An instruction (`struct sock_filter` of linux/filter.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassicInstruction {
    /// Operation.
    pub code: u16,
    /// Instructions to leave out if the condition holds.
    pub jt: u8,
    /// Instructions to leave out if it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// The protocols that have ports.
const WITH_PORTS: [IpProto; 3] = [IpProto::TCP, IpProto::UDP, IpProto::SCTP];

/// Operations (linux/bpf_common.h).
mod op {
    pub(super) const LD_WORD_ABS: u16 = 0x20;
    pub(super) const LD_LEN: u16 = 0x80;
    pub(super) const LD_IMM: u16 = 0x00;
    pub(super) const LD_MEM: u16 = 0x60;
    pub(super) const LDX_MEM: u16 = 0x61;
    pub(super) const LDX_HEADER_LEN: u16 = 0xb1;
    pub(super) const ST: u16 = 0x02;
    pub(super) const ABS: u16 = 0x20;
    pub(super) const IND: u16 = 0x40;
    pub(super) const ALU: u16 = 0x04;
    pub(super) const X: u16 = 0x08;
    #[cfg(test)]
    pub(super) const JMP: u16 = 0x05;
    pub(super) const JA: u16 = 0x05;
    pub(super) const JEQ: u16 = 0x15;
    pub(super) const JGT: u16 = 0x25;
    pub(super) const JGE: u16 = 0x35;
    pub(super) const JSET: u16 = 0x45;
    pub(super) const RET: u16 = 0x06;
    pub(super) const TAX: u16 = 0x07;
    pub(super) const TXA: u16 = 0x87;
    pub(super) const ADD: u16 = 0x00;
    pub(super) const AND: u16 = 0x50;
    pub(super) const DIV: u16 = 0x30;
    pub(super) const MOD: u16 = 0x90;
    pub(super) const LSH: u16 = 0x60;
    pub(super) const RSH: u16 = 0x70;
}

/// Facts that the kernel keeps next to the frame (`SKF_AD_*`).
mod aside {
    const OFFSET: i32 = -0x1000;
    pub(super) const TAG: u32 = (OFFSET + 44) as u32;
    pub(super) const HAS_TAG: u32 = (OFFSET + 48) as u32;
    pub(super) const TPID: u32 = (OFFSET + 60) as u32;
}

/// LINKTYPE numbers of interfaces (tcpdump.org's registry).
const ETHERNET: u16 = 1;
const RAW_IP: u16 = 101;
/// Words of memory for values that are kept while others are computed; two more are for one load.
const KEPT_WORDS: u32 = 14;
/// A frame that passes is taken whole.
const WHOLE: u32 = u32::MAX;

/// A place in the program that others jump to.
type Label = usize;

enum Step {
    Plain(u16, u32),
    /// A condition on the accumulator, and where to go.
    If(u16, u32, Label, Label),
    Go(Label),
    Here(Label),
}

/// Where the network layer begins, in the bytes that the kernel shows.
#[derive(Clone, Copy)]
enum Network {
    /// Behind the ethertype at this offset.
    Typed { kind: u32 },
    /// The whole frame: its first byte has the version.
    Bare,
    /// Behind a tag that the kernel keeps aside: no layer that is known.
    Tag,
}

impl Network {
    fn start(self) -> u32 {
        match self {
            Network::Typed { kind } => kind + 2,
            Network::Bare => 0,
            Network::Tag => 12,
        }
    }
}

struct Program {
    steps: Vec<Step>,
    labels: usize,
    link: u16,
    /// The outer tag of the frame is kept aside.
    has_tag: bool,
}

impl Filter {
    /// The filter as a program for frames of this LINKTYPE.
    ///
    /// # Errors
    /// What of the expression no such program can do, or that it would be too long for the kernel.
    pub fn to_classic(&self, link: u16) -> Result<Vec<ClassicInstruction>, Unsupported> {
        if !matches!(link, ETHERNET | RAW_IP) {
            return Err(Unsupported::Link);
        }
        let mut p = Program { steps: Vec::new(), labels: 0, link, has_tag: false };
        let (yes, no) = (p.label(), p.label());
        match &self.root {
            None => p.go(yes),
            Some(node) if link == ETHERNET => {
                let (plain, tagged) = (p.label(), p.label());
                p.plain(op::LD_WORD_ABS, aside::HAS_TAG);
                p.decide(op::JEQ, 0, plain, tagged);
                p.here(plain);
                p.node(node, yes, no)?;
                p.here(tagged);
                p.has_tag = true;
                p.node(node, yes, no)?;
            }
            Some(node) => p.node(node, yes, no)?,
        }
        p.here(yes);
        p.plain(op::RET, WHOLE);
        p.here(no);
        p.plain(op::RET, 0);
        p.assemble()
    }
}

impl Program {
    fn label(&mut self) -> Label {
        self.labels += 1;
        self.labels - 1
    }

    fn plain(&mut self, code: u16, k: u32) {
        self.steps.push(Step::Plain(code, k));
    }

    fn decide(&mut self, code: u16, k: u32, yes: Label, no: Label) {
        self.steps.push(Step::If(code, k, yes, no));
    }

    fn go(&mut self, to: Label) {
        self.steps.push(Step::Go(to));
    }

    fn here(&mut self, label: Label) {
        self.steps.push(Step::Here(label));
    }

    /// Continues if the accumulator fulfils the condition, else to `no`.
    fn require(&mut self, code: u16, k: u32, no: Label) {
        let on = self.label();
        self.decide(code, k, on, no);
        self.here(on);
    }

    /// Continues unless it fulfils the condition, then to `no`.
    fn refuse(&mut self, code: u16, k: u32, no: Label) {
        let on = self.label();
        self.decide(code, k, no, on);
        self.here(on);
    }

    /// The program: a condition is followed by two jumps, since its own reach few instructions.
    fn assemble(self) -> Result<Vec<ClassicInstruction>, Unsupported> {
        let mut places = vec![0_usize; self.labels];
        let mut at = 0;
        for step in &self.steps {
            match step {
                Step::Plain(..) | Step::Go(_) => at += 1,
                Step::If(..) => at += 3,
                Step::Here(label) => places[*label] = at,
            }
        }
        if at > CLASSIC_INSTRUCTIONS_MAX {
            return Err(Unsupported::TooLong);
        }
        let mut out = Vec::with_capacity(at);
        let plain = |code, k| ClassicInstruction { code, jt: 0, jf: 0, k };
        // Jumps only lead to what follows.
        let ahead = |from: usize, to: Label| (places[to].saturating_sub(from + 1)) as u32;
        for step in &self.steps {
            match *step {
                Step::Plain(code, k) => out.push(plain(code, k)),
                Step::Go(to) => out.push(plain(op::JA, ahead(out.len(), to))),
                Step::If(code, k, yes, no) => {
                    out.push(ClassicInstruction { code, jt: 0, jf: 1, k });
                    out.push(plain(op::JA, ahead(out.len(), yes)));
                    out.push(plain(op::JA, ahead(out.len(), no)));
                }
                Step::Here(_) => {}
            }
        }
        Ok(out)
    }

    fn node(&mut self, node: &Node, yes: Label, no: Label) -> Result<(), Unsupported> {
        match node {
            Node::And(a, b) => {
                let on = self.label();
                self.node(a, on, no)?;
                self.here(on);
                self.node(b, yes, no)
            }
            Node::Or(a, b) => {
                let on = self.label();
                self.node(a, yes, on)?;
                self.here(on);
                self.node(b, yes, no)
            }
            Node::Not(a) => self.node(a, no, yes),
            Node::Test(tags, test) => self.test(u32::from(*tags), test, yes, no),
        }
    }

    /// Loads bytes at an offset; to `no` if the frame ends before.
    fn load(&mut self, at: u32, size: u32, no: Label) {
        self.plain(op::LD_LEN, 0);
        self.require(op::JGE, at.saturating_add(size), no);
        self.plain(op::ABS | width(size), at);
    }

    /// Finds the network layer after this many tags; to `no` if the frame has fewer.
    fn network(&mut self, tags: u32, no: Label) -> Network {
        if self.link == RAW_IP {
            if tags > 0 {
                self.go(no);
            }
            return Network::Bare;
        }
        let inside = match (self.has_tag, tags) {
            (true, 0) => return Network::Tag,
            (true, n) => n - 1,
            (false, n) => n,
        };
        for n in 0..inside {
            self.load(12 + 4 * n, 2, no);
            self.is_tag(no);
        }
        Network::Typed { kind: 12 + 4 * inside }
    }

    /// Continues if the accumulator is the ethertype of a tag.
    fn is_tag(&mut self, no: Label) {
        let on = self.label();
        for kind in ETHER_TAGS {
            let next = self.label();
            self.decide(op::JEQ, kind.into(), on, next);
            self.here(next);
        }
        self.go(no);
        self.here(on);
    }

    /// Continues if the network layer is of this ethertype.
    fn require_kind(&mut self, network: Network, wanted: u16, no: Label) {
        match network {
            Network::Typed { kind } => {
                self.load(kind, 2, no);
                self.require(op::JEQ, wanted.into(), no);
            }
            Network::Bare => {
                let version = match wanted {
                    ETHER_IP => 0x40,
                    ETHER_IP6 => 0x60,
                    _ => return self.go(no),
                };
                self.load(0, 1, no);
                self.plain(op::ALU | op::AND, 0xf0);
                self.require(op::JEQ, version, no);
            }
            Network::Tag => {
                self.plain(op::LD_WORD_ABS, aside::TPID);
                self.require(op::JEQ, wanted.into(), no);
            }
        }
        if wanted == ETHER_IP {
            // Its header's length is looked at whenever it is parsed.
            self.load(network.start(), 1, no);
        }
    }

    /// Continues if the layer is present.
    fn require_layer(&mut self, network: Network, layer: Layer, no: Label) {
        match layer {
            Layer::Link => self.require_link(network, no),
            Layer::Ip => self.require_kind(network, ETHER_IP, no),
            Layer::Ip6 => self.require_kind(network, ETHER_IP6, no),
            Layer::Arp => self.require_kind(network, ETHER_ARP, no),
            Layer::Rarp => self.require_kind(network, ETHER_RARP, no),
            Layer::Transport(p) => {
                let (on, other) = (self.label(), self.label());
                if p != IpProto::ICMPV6 {
                    self.require_proto(network, ETHER_IP, p, other);
                    self.go(on);
                }
                self.here(other);
                if !matches!(p, IpProto::ICMP | IpProto::IGMP) {
                    self.require_proto(network, ETHER_IP6, p, no);
                    self.go(on);
                }
                self.go(no);
                self.here(on);
            }
        }
    }

    /// Continues if the frame is long enough for its link layer.
    fn require_link(&mut self, network: Network, no: Label) {
        match network {
            Network::Typed { kind } => {
                self.load(kind, 2, no);
                let (is_ip, on) = (self.label(), self.label());
                self.decide(op::JEQ, ETHER_IP.into(), is_ip, on);
                self.here(is_ip);
                self.load(kind + 2, 1, no);
                self.here(on);
            }
            Network::Bare => {
                let (on, six) = (self.label(), self.label());
                self.load(0, 1, no);
                self.plain(op::ALU | op::AND, 0xf0);
                self.decide(op::JEQ, 0x40, on, six);
                self.here(six);
                self.require(op::JEQ, 0x60, no);
                self.here(on);
            }
            Network::Tag => {}
        }
    }

    /// Continues if the packet is of this version and has this protocol, behind a fragment header too.
    fn require_proto(&mut self, network: Network, version: u16, proto: IpProto, no: Label) {
        self.require_kind(network, version, no);
        let start = network.start();
        if version == ETHER_IP {
            self.load(start + 9, 1, no);
            self.require(op::JEQ, proto.0.into(), no);
            return;
        }
        let (on, other) = (self.label(), self.label());
        self.load(start + 6, 1, no);
        self.decide(op::JEQ, proto.0.into(), on, other);
        self.here(other);
        self.require(op::JEQ, IpProto::FRAGMENT.0.into(), no);
        self.load(start + 40, 1, no);
        self.require(op::JEQ, proto.0.into(), no);
        self.here(on);
    }

    /// Continues if the packet is no later fragment.
    fn require_first_fragment(&mut self, start: u32, no: Label) {
        let on = self.label();
        self.load(start + 6, 2, on);
        self.refuse(op::JSET, 0x1fff, no);
        self.here(on);
    }

    /// Both sides' tests as the side asks for them: `source` and `destination` go to their last label if they fail.
    fn sides(
        &mut self,
        side: Side,
        (yes, no): (Label, Label),
        check: &mut dyn FnMut(&mut Program, bool, Label),
    ) {
        match side {
            Side::Source => check(self, true, no),
            Side::Destination => check(self, false, no),
            Side::Both => {
                check(self, true, no);
                check(self, false, no);
            }
            Side::Either => {
                let other = self.label();
                check(self, true, other);
                self.go(yes);
                self.here(other);
                check(self, false, no);
            }
        }
        self.go(yes);
    }

    fn test(&mut self, tags: u32, test: &Test, yes: Label, no: Label) -> Result<(), Unsupported> {
        match test {
            Test::Layer(layer) => {
                let network = self.network(tags, no);
                self.require_layer(network, *layer, no);
                self.go(yes);
            }
            Test::EtherType(kind) => {
                let network = self.network(tags, no);
                self.require_kind(network, *kind, no);
                self.go(yes);
            }
            Test::Protocol(over, proto) => {
                let network = self.network(tags, no);
                if let Some(layer) = over {
                    self.require_layer(network, *layer, no);
                }
                let other = self.label();
                self.require_proto(network, ETHER_IP, *proto, other);
                self.go(yes);
                self.here(other);
                self.require_proto(network, ETHER_IP6, *proto, no);
                self.go(yes);
            }
            Test::Mac(side, mac) => {
                let network = self.of_ethernet(tags, no)?;
                self.require_link(network, no);
                // Both addresses are there or the test fails.
                self.load(10, 2, no);
                let [a, b, c, d, e, f] = *mac;
                let (front, back) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
                self.sides(*side, (yes, no), &mut |p, is_source, fails| {
                    let at = if is_source { 6 } else { 0 };
                    p.load(at, 4, fails);
                    p.require(op::JEQ, front, fails);
                    p.load(at + 4, 2, fails);
                    p.require(op::JEQ, back.into(), fails);
                });
            }
            Test::MacGroup { broadcast_only } => {
                let network = self.of_ethernet(tags, no)?;
                self.require_link(network, no);
                self.load(4, 2, no);
                if *broadcast_only {
                    self.require(op::JEQ, 0xffff, no);
                    self.load(0, 4, no);
                    self.decide(op::JEQ, u32::MAX, yes, no);
                } else {
                    self.load(0, 1, no);
                    self.decide(op::JSET, 1, yes, no);
                }
            }
            Test::Net { side, over, addr, is_v6, prefix } => {
                let network = self.network(tags, no);
                if let Some(layer) = over {
                    self.require_layer(network, *layer, no);
                }
                let net = NetTest { side: *side, addr: *addr, prefix: u32::from(*prefix) };
                if *is_v6 {
                    self.require_kind(network, ETHER_IP6, no);
                    self.net(network.start(), (8, 24, 16), &net, (yes, no));
                } else {
                    let arp = self.label();
                    self.require_kind(network, ETHER_IP, arp);
                    self.net(network.start(), (12, 16, 4), &net, (yes, no));
                    self.here(arp);
                    let (rarp, found) = (self.label(), self.label());
                    self.require_kind(network, ETHER_ARP, rarp);
                    self.go(found);
                    self.here(rarp);
                    self.require_kind(network, ETHER_RARP, no);
                    self.here(found);
                    self.net(network.start(), (14, 24, 4), &net, (yes, no));
                }
            }
            Test::Ports { side, proto, from, to } => {
                let network = self.network(tags, no);
                let protos = proto.as_ref().map_or(&WITH_PORTS[..], std::slice::from_ref);
                let six = self.label();
                self.require_kind(network, ETHER_IP, six);
                self.ports(network, ETHER_IP, (protos, *side, (*from, *to)), (yes, no));
                self.here(six);
                self.require_kind(network, ETHER_IP6, no);
                self.ports(network, ETHER_IP6, (protos, *side, (*from, *to)), (yes, no));
            }
            Test::Vlan(id) => self.vlan(tags, *id, yes, no),
            Test::Compare(a, relation, b) => {
                self.value(a, tags, 0, no)?;
                self.plain(op::ST, 0);
                self.value(b, tags, 1, no)?;
                self.plain(op::TAX, 0);
                self.plain(op::LD_MEM, 0);
                match relation {
                    Relation::Less => self.decide(op::JGE | op::X, 0, no, yes),
                    Relation::LessOrEqual => self.decide(op::JGT | op::X, 0, no, yes),
                    Relation::Equal => self.decide(op::JEQ | op::X, 0, yes, no),
                    Relation::Differs => self.decide(op::JEQ | op::X, 0, no, yes),
                    Relation::GreaterOrEqual => self.decide(op::JGE | op::X, 0, yes, no),
                    Relation::Greater => self.decide(op::JGT | op::X, 0, yes, no),
                }
            }
        }
        Ok(())
    }

    fn of_ethernet(&mut self, tags: u32, no: Label) -> Result<Network, Unsupported> {
        if self.link != ETHERNET {
            return Err(Unsupported::NoEthernet);
        }
        Ok(self.network(tags, no))
    }

    fn vlan(&mut self, tags: u32, id: Option<u16>, yes: Label, no: Label) {
        match self.network(tags, no) {
            Network::Bare => return self.go(no),
            Network::Tag => self.plain(op::LD_WORD_ABS, aside::TAG),
            Network::Typed { kind } => {
                self.load(kind, 2, no);
                self.is_tag(no);
                self.load(kind + 2, 2, no);
            }
        }
        match id {
            None => self.go(yes),
            Some(id) => {
                self.plain(op::ALU | op::AND, 0x0fff);
                self.decide(op::JEQ, id.into(), yes, no);
            }
        }
    }

    /// Compares the addresses at these offsets, each of `len` bytes.
    fn net(
        &mut self,
        start: u32,
        (source, destination, len): (u32, u32, u32),
        net: &NetTest,
        (yes, no): (Label, Label),
    ) {
        self.load(start + destination + len - 4, 4, no);
        self.load(start + source + len - 4, 4, no);
        self.sides(net.side, (yes, no), &mut |p, is_source, fails| {
            let at = start + if is_source { source } else { destination };
            let words = net.addr.chunks_exact(4).take(len as usize / 4);
            for (n, word) in (0..).zip(words) {
                let bits = net.prefix.saturating_sub(32 * n).min(32);
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                let word = word.iter().fold(0, |all, b| all << 8 | u32::from(*b));
                p.load(at + 4 * n, 4, fails);
                p.plain(op::ALU | op::AND, mask);
                p.require(op::JEQ, word & mask, fails);
            }
        });
    }

    /// Compares the ports of a packet of this version.
    fn ports(
        &mut self,
        network: Network,
        version: u16,
        (protos, side, (from, to)): (&[IpProto], Side, (u16, u16)),
        (yes, no): (Label, Label),
    ) {
        let start = network.start();
        let on = self.label();
        self.load(start + if version == ETHER_IP { 9 } else { 6 }, 1, no);
        for proto in protos {
            let next = self.label();
            self.decide(op::JEQ, u32::from(proto.0), on, next);
            self.here(next);
        }
        self.go(no);
        self.here(on);
        if version == ETHER_IP {
            self.require_first_fragment(start, no);
        }
        self.transport(start, version, (2, 2), no);
        self.sides(side, (yes, no), &mut |p, is_source, fails| {
            p.transport(start, version, (if is_source { 0 } else { 2 }, 2), fails);
            p.require(op::JGE, from.into(), fails);
            p.refuse(op::JGT, to.into(), fails);
        });
    }

    /// Loads bytes of the transport layer.
    fn transport(&mut self, start: u32, version: u16, (at, size): (u32, u32), no: Label) {
        if version == ETHER_IP6 {
            return self.load(start + 40 + at, size, no);
        }
        self.load(start, 1, no);
        self.plain(op::LDX_HEADER_LEN, start);
        self.plain(op::TXA, 0);
        self.plain(op::ALU | op::ADD, start + at);
        self.load_computed(size, no);
    }

    /// Loads bytes at the offset in the accumulator.
    fn load_computed(&mut self, size: u32, no: Label) {
        self.plain(op::ST, KEPT_WORDS);
        self.plain(op::ALU | op::ADD, size);
        self.plain(op::TAX, 0);
        self.plain(op::LD_LEN, 0);
        self.require(op::JGE | op::X, 0, no);
        self.plain(op::LDX_MEM, KEPT_WORDS);
        self.plain(op::IND | width(size), 0);
    }

    /// Computes a value into the accumulator; words of memory below `kept` are in use.
    fn value(&mut self, value: &Value, tags: u32, kept: u32, no: Label) -> Result<(), Unsupported> {
        if kept >= KEPT_WORDS {
            return Err(Unsupported::TooDeep);
        }
        match value {
            Value::Number(n) => self.plain(op::LD_IMM, *n),
            Value::Length => {
                self.plain(op::LD_LEN, 0);
                if self.has_tag {
                    self.plain(op::ALU | op::ADD, 4);
                }
            }
            Value::Bytes { layer, at, size } => {
                self.bytes(*layer, at, u32::from(*size), (tags, kept), no)?;
            }
            Value::Binary(a, operator, b) => {
                let code = match operator {
                    Operator::Add => op::ADD,
                    Operator::Subtract => 0x10,
                    Operator::Multiply => 0x20,
                    Operator::Divide => op::DIV,
                    Operator::Modulo => op::MOD,
                    Operator::And => op::AND,
                    Operator::Or => 0x40,
                    Operator::Xor => 0xa0,
                    Operator::ShiftLeft => op::LSH,
                    Operator::ShiftRight => op::RSH,
                };
                self.value(a, tags, kept, no)?;
                self.plain(op::ST, kept);
                self.value(b, tags, kept + 1, no)?;
                match code {
                    op::DIV | op::MOD => self.refuse(op::JEQ, 0, no),
                    // What is shifted by more bits than there are is zero, and the kernel does not do that.
                    op::LSH | op::RSH => {
                        let (on, far) = (self.label(), self.label());
                        self.decide(op::JGT, 31, far, on);
                        self.here(far);
                        self.plain(op::LD_IMM, 0);
                        self.plain(op::ST, kept);
                        self.here(on);
                        self.plain(op::ALU | op::AND, 31);
                    }
                    _ => {}
                }
                self.plain(op::TAX, 0);
                self.plain(op::LD_MEM, kept);
                self.plain(op::ALU | op::X | code, 0);
            }
        }
        Ok(())
    }

    /// Loads bytes of a layer.
    fn bytes(
        &mut self,
        layer: Layer,
        at: &Value,
        size: u32,
        (tags, kept): (u32, u32),
        no: Label,
    ) -> Result<(), Unsupported> {
        if layer == Layer::Link {
            let network = self.network(tags, no);
            self.require_link(network, no);
            let at = match (at, self.has_tag) {
                (Value::Number(n), false) => *n,
                (Value::Number(n), true) => match (*n, size) {
                    (12, 2) => {
                        self.plain(op::LD_WORD_ABS, aside::TPID);
                        return Ok(());
                    }
                    (14, 2) => {
                        self.plain(op::LD_WORD_ABS, aside::TAG);
                        return Ok(());
                    }
                    (n, size) if n.saturating_add(size) <= 12 => n,
                    (n @ 16.., _) => n - 4,
                    _ => return Err(Unsupported::AroundTag),
                },
                (_, true) => return Err(Unsupported::ComputedPlace),
                (at, false) => {
                    self.value(at, tags, kept, no)?;
                    self.refuse(op::JGT, 0xffff, no);
                    self.load_computed(size, no);
                    return Ok(());
                }
            };
            self.load(at.min(0xffff), size, no);
            return Ok(());
        }
        self.value(at, tags, kept, no)?;
        self.refuse(op::JGT, 0xffff, no);
        self.plain(op::ST, kept);
        let network = self.network(tags, no);
        let start = network.start();
        match layer {
            Layer::Transport(p) => {
                let over = if p == IpProto::ICMPV6 { ETHER_IP6 } else { ETHER_IP };
                self.require_layer(network, layer, no);
                self.require_kind(network, over, no);
                if over == ETHER_IP {
                    self.require_first_fragment(start, no);
                    self.load(start, 1, no);
                    self.plain(op::LDX_HEADER_LEN, start);
                    self.plain(op::LD_MEM, kept);
                    self.plain(op::ALU | op::X | op::ADD, 0);
                    self.plain(op::ALU | op::ADD, start);
                } else {
                    self.plain(op::LD_MEM, kept);
                    self.plain(op::ALU | op::ADD, start + 40);
                }
            }
            Layer::Link | Layer::Ip | Layer::Ip6 | Layer::Arp | Layer::Rarp => {
                self.require_layer(network, layer, no);
                self.plain(op::LD_MEM, kept);
                self.plain(op::ALU | op::ADD, start);
            }
        }
        self.load_computed(size, no);
        Ok(())
    }
}

/// An address and how much of it counts.
struct NetTest {
    side: Side,
    addr: [u8; 16],
    prefix: u32,
}

/// The part of a load's code that says how many bytes it takes.
fn width(size: u32) -> u16 {
    match size {
        1 => 0x10,
        2 => 0x08,
        _ => 0x00,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel does; none where it would refuse it.
    fn run(program: &[ClassicInstruction], frame: &[u8], tag: Option<(u16, u16)>) -> Option<u32> {
        let (mut a, mut x, mut memory) = (0_u32, 0_u32, [0_u32; 16]);
        let mut at = 0;
        let len = frame.len() as u32;
        loop {
            let i = program.get(at)?;
            at += 1;
            let load = |place: u32, code: u16| {
                let size = match code & 0x18 {
                    0x10 => 1,
                    0x08 => 2,
                    _ => 4,
                };
                let place = place as usize;
                let bytes = frame.get(place..place + size)?;
                Some(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
            };
            let operand = if i.code & op::X != 0 { x } else { i.k };
            match i.code {
                op::LD_WORD_ABS if i.k >= 0xffff_f000 => {
                    let (tpid, tci) = tag.unwrap_or_default();
                    a = match i.k {
                        aside::HAS_TAG => u32::from(tag.is_some()),
                        aside::TAG => tci.into(),
                        aside::TPID => tpid.into(),
                        _ => return None,
                    };
                }
                op::LD_LEN => a = len,
                op::LD_IMM => a = i.k,
                op::LD_MEM => a = memory[i.k as usize],
                op::LDX_MEM => x = memory[i.k as usize],
                op::LDX_HEADER_LEN => x = u32::from(frame.get(i.k as usize)? & 15) * 4,
                op::ST => memory[i.k as usize] = a,
                op::TAX => x = a,
                op::TXA => a = x,
                op::RET => return Some(i.k),
                op::JA => at += i.k as usize,
                code if code & 7 == 0 => {
                    let base = if code & 0xe0 == op::IND { x } else { 0 };
                    a = load(base + i.k, code)?;
                }
                code if code & 7 == op::JMP => {
                    let holds = match code & 0xf0 {
                        0x10 => a == operand,
                        0x20 => a > operand,
                        0x30 => a >= operand,
                        _ => a & operand != 0,
                    };
                    at += usize::from(if holds { i.jt } else { i.jf });
                }
                code if code & 7 == op::ALU => {
                    a = match code & 0xf0 {
                        0x00 => a.wrapping_add(operand),
                        0x10 => a.wrapping_sub(operand),
                        0x20 => a.wrapping_mul(operand),
                        0x30 => a.checked_div(operand)?,
                        0x40 => a | operand,
                        0x50 => a & operand,
                        0x60 => a.checked_shl(operand)?,
                        0x70 => a.checked_shr(operand)?,
                        0x90 => a.checked_rem(operand)?,
                        _ => a ^ operand,
                    }
                }
                _ => return None,
            }
        }
    }

    const FILTERS: &[&str] = &[
        "",
        "tcp",
        "udp or icmp",
        "ip and not ip6",
        "port 80",
        "src port 80",
        "tcp dst port 80",
        "not udp port 53",
        "host 10.0.0.1",
        "src host 10.0.0.1 and dst net 192.168.0.0/16",
        "not dst host 10.0.0.1",
        "src and dst net 10.0.0.0/8",
        "portrange 79-81",
        "ip6 host 2001:db8::1",
        "ip6 net 2000::/3 and not port 22",
        "arp",
        "arp host 10.0.0.1",
        "tcp[13] & 2 != 0",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) == (tcp-syn|tcp-ack)",
        "ip[8] > 63 && ip[9] = 6",
        "less 60",
        "greater 61",
        "len <= 58",
        "ether host 00:01:02:03:04:05",
        "not ether src 0a:0b:0c:0d:0e:0f",
        "ether proto 0x8100",
        "ether broadcast",
        "ether multicast",
        "ip proto \\tcp",
        "proto 17",
        "vlan",
        "not vlan and tcp",
        "vlan 7 and tcp port 80",
        "vlan 7 and vlan 8 and udp",
        "not vlan 7",
        "icmp[icmptype] = icmp-echo",
        "icmp6",
        "icmp6[0] = 128",
        "ether[12:2] = 0x800",
        "not ether[16:2] = 1",
        "ip[ip[8] - 60] = 0",
        "udp[0:2] / (ip[1] - 0) > 1",
        "tcp[2:2] << 30 > 0",
        "ip[2:2] - ((ip[0] & 0xf) << 2) > 20",
        "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420",
    ];

    /// A number below `below`.
    fn random(state: &mut u64, below: usize) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 33) as usize % below
    }

    fn packet(state: &mut u64) -> (u16, Vec<u8>) {
        // The last two begin with the types of echo requests.
        let ports: [u16; 6] = [80, 53, 22, 40_000, 0x0800, 0x8000];
        let mut rest = Vec::new();
        for _ in 0..2 {
            rest.extend(ports[random(state, 6)].to_be_bytes());
        }
        rest.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, random(state, 32) as u8, 1, 0, 0, 0, 0, 0]);
        rest.extend(b"GET / HTTP/1.1");
        match random(state, 4) {
            0 => {
                let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 1, 1, 1, 1, 1, 1, 10, 0, 0, 1];
                arp.extend([2, 2, 2, 2, 2, 2, 192, 168, 1, 2]);
                (0x0806, arp)
            }
            1 => {
                let next = [6, 17, 58, 44][random(state, 4)];
                let mut ip = vec![0x60, 0, 0, 0, 0, 40, next, 64];
                for _ in 0..2 {
                    ip.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                    ip.push(random(state, 3) as u8);
                }
                if next == 44 {
                    ip.extend([[6, 17][random(state, 2)], 0, 0, 0, 0, 0, 0, 1]);
                }
                ip.extend(rest);
                (0x86dd, ip)
            }
            _ => {
                let words = 5 + random(state, 3);
                let fragment = [0, 0, 0, 0x20, 1][random(state, 5)];
                let proto = [6, 17, 1, 132][random(state, 4)];
                let mut ip =
                    vec![0x40 | words as u8, random(state, 3) as u8, 0, 60, 0, 1, fragment];
                ip.extend([0, 60 + random(state, 8) as u8, proto, 0, 0]);
                for _ in 0..2 {
                    ip.extend([[10, 0, 0, 1], [192, 168, 1, 2], [10, 9, 9, 9]][random(state, 3)]);
                }
                ip.resize(words * 4, 1);
                ip.extend(rest);
                (0x0800, ip)
            }
        }
    }

    /// The kernel's answer, with the outer tag aside or in its place, is ours.
    #[test]
    fn programs_give_the_answers_of_the_filter() {
        let mut state = 7;
        let mut passed = vec![0; FILTERS.len()];
        for (n, text) in FILTERS.iter().enumerate() {
            let filter = Filter::compile(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let program = filter.to_classic(ETHERNET).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(program.last().unwrap().code, op::RET);
            for _ in 0..3000 {
                let (kind, ip) = packet(&mut state);
                let mut frame = match random(&mut state, 4) {
                    0 => vec![0xff; 6],
                    1 => vec![1, 0, 0x5e, 3, 4, 5],
                    _ => vec![0, 1, 2, 3, 4, 5],
                };
                frame.extend([0xa, 0xb, 0xc, 0xd, 0xe, 0xf]);
                let tags: Vec<u16> = (0..random(&mut state, 3)).map(|n| 7 + n as u16).collect();
                for tag in &tags {
                    frame.extend([0x81, 0]);
                    frame.extend(tag.to_be_bytes());
                }
                frame.extend(kind.to_be_bytes());
                frame.extend(ip);
                if random(&mut state, 3) == 0 {
                    // The kernel takes no tag out of a frame that has none.
                    let least = if tags.is_empty() { 0 } else { 18 };
                    let len = least + random(&mut state, frame.len() - least);
                    frame.truncate(len);
                }
                let ours = filter.matches(ETHERNET, frame.len() as u32, &frame);
                passed[n] += usize::from(ours);
                let theirs = run(&program, &frame, None);
                assert_eq!(theirs.map(|k| k > 0), Some(ours), "{text}: {frame:02x?}");
                if let Some(tag) = tags.first() {
                    let bytes = [&frame[..12], &frame[16..]].concat();
                    let theirs = run(&program, &bytes, Some((0x8100, *tag)));
                    assert_eq!(theirs.map(|k| k > 0), Some(ours), "{text}: aside {frame:02x?}");
                }
            }
        }
        // After `not vlan` the rest looks behind a tag, as in tcpdump: it finds nothing.
        let is_expected = |text: &str| !text.starts_with("not vlan");
        let never = FILTERS.iter().zip(&passed).filter(|(text, n)| **n == 0 && is_expected(text));
        let never: Vec<_> = never.collect();
        assert!(never.is_empty(), "{never:?}");
    }

    #[test]
    fn frames_without_a_link_layer_are_filtered_too() {
        let mut state = 9;
        for text in ["tcp port 80", "ip6", "not host 10.0.0.1", "icmp", "vlan or udp", "len > 60"] {
            let filter = Filter::compile(text).unwrap();
            let program = filter.to_classic(RAW_IP).unwrap();
            for _ in 0..2000 {
                let (_, mut ip) = packet(&mut state);
                ip.truncate(random(&mut state, ip.len() + 1));
                let ours = filter.matches(RAW_IP, ip.len() as u32, &ip);
                assert_eq!(run(&program, &ip, None).map(|k| k > 0), Some(ours), "{text} {ip:02x?}");
            }
        }
    }

    #[test]
    fn what_no_program_can_do_is_refused() {
        let of = |text: &str, link| Filter::compile(text).unwrap().to_classic(link);
        assert!(of("ether[13] = 1", ETHERNET).is_err());
        assert!(of("ether[ether[0]] = 1", ETHERNET).is_err());
        assert!(of("ether host 1:2:3:4:5:6", RAW_IP).is_err());
        assert!(of("tcp", 113).is_err());
    }
}
