//! `alert-debug.log`: a block for each packet with alerts, which shows the packet, its flow, what rules have set, and each
//! alert with the bytes it was found in, as Suricata 8.0.7 writes it (observed).
//!
//! Three things differ: bits, integers and texts stand in this order, not in that in which they were set; of a pseudo packet,
//! which Suricata makes with headers of its own, there are no bytes; and stream data is shown whole, where Suricata shows
//! its segments one by one.

use super::hex_dump::write_hex_dump;
use super::text_format::write_escaped;
use crate::output::{Format, Output, Piece, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use crate::timestamp::Stamp;
use gabion_record::alerted::{AlertedPacketRecord, FoundIn, PacketAlert, Variable};
use gabion_record::eve::{AlertSignature, InputName, Wants};
use gabion_record::{Direction, IpProto};
use std::io::Write;

pub(crate) const KIND: OutputKind =
    OutputKind::new("alert-debug", open).with_file("alert-debug.log");

fn open(o: &mut Opening<'_>) -> Opened {
    let file = o.line_file("alert-debug.log")?;
    Ok(Some(Output::new(AlertDebug::default(), file)))
}

/// Suricata 8.0.7's numbers of protocols, by their names in records: one flow of each, with this output.
const PROTOCOL_NUMBERS: &[(&str, u8)] = &[
    ("failed", 1),
    ("http", 2),
    ("ftp", 3),
    ("smtp", 4),
    ("tls", 5),
    ("ssh", 6),
    ("imap", 7),
    ("jabber", 8),
    ("smb", 9),
    ("dcerpc", 10),
    ("irc", 11),
    ("dns", 12),
    ("modbus", 13),
    ("enip", 14),
    ("dnp3", 15),
    ("nfs", 16),
    ("ntp", 17),
    ("ftp-data", 18),
    ("tftp", 19),
    ("ike", 20),
    ("krb5", 21),
    ("quic", 22),
    ("dhcp", 23),
    ("sip", 24),
    ("rfb", 25),
    ("mqtt", 26),
    ("pgsql", 27),
    ("telnet", 28),
    ("websocket", 29),
    ("ldap", 30),
    ("doh2", 31),
    ("template", 32),
    ("rdp", 33),
    ("http2", 34),
    ("bittorrent-dht", 35),
    ("pop3", 36),
    ("mdns", 37),
    ("snmp", 39),
];

/// Writes blocks of `alert-debug.log`.
#[derive(Clone, Debug, Default)]
struct AlertDebug {
    stamp: Stamp,
    /// Frames of an interface have no place in a capture.
    is_of_interface: bool,
    block: Vec<u8>,
}

impl AlertDebug {
    /// The block of a packet.
    fn packet(&mut self, r: &AlertedPacketRecord<'_>) -> &[u8] {
        let mut out = std::mem::take(&mut self.block);
        out.clear();
        out.extend_from_slice(b"+================\nTIME:              ");
        self.stamp.fast(r.header.ts_ns, &mut out);
        out.push(b'\n');
        if let (Some(number), false) = (r.header.pcap_cnt, self.is_of_interface) {
            let _ = writeln!(out, "PCAP PKT NUM:      {number}");
        }
        if let Some(source) = r.header.pkt_src {
            let _ = writeln!(out, "PKT SRC:           {}", source.name());
        }
        if r.header.ip_version == 0 {
            write_alerts_of_frame(r, &mut out);
            write_packet(r, &mut out);
        } else {
            write_ends(r, &mut out);
            self.write_flow(r, &mut out);
            write_variables(r, &mut out);
            write_packet(r, &mut out);
            write_alerts(r, &mut out);
        }
        self.block = out;
        &self.block
    }

    fn write_flow(&mut self, r: &AlertedPacketRecord<'_>, out: &mut Vec<u8>) {
        let goes = |d: Direction| flag(r.direction == Some(d));
        let _ = writeln!(
            out,
            "FLOW:              to_server: {}, to_client: {}",
            goes(Direction::ToServer),
            goes(Direction::ToClient)
        );
        let Some(flow) = &r.flow else { return };
        out.extend_from_slice(b"FLOW Start TS:     ");
        self.stamp.fast(flow.start_ns, out);
        let (to_server, to_client) = (flow.pkts[0], flow.pkts[1]);
        let bytes = flow.bytes[0] + flow.bytes[1];
        let name = r.app_proto.app_proto;
        let number = PROTOCOL_NUMBERS.iter().find(|(n, _)| Some(*n) == name).map_or(0, |n| n.1);
        let _ = write!(
            out,
            "\nFLOW PKTS TODST:   {to_server}\nFLOW PKTS TOSRC:   {to_client}\nFLOW Total Bytes:  {bytes}\n\
             FLOW ACTION:       DROP: {}\nFLOW PAYLOAD: {}, APP_LAYER: {}\n\
             FLOW APP_LAYER:    DETECTED: {}, PROTO {number}\n",
            flag(r.is_flow_dropped),
            flag(r.is_payload_over),
            flag(r.is_parsing_over),
            flag(name.is_some()),
        );
    }
}

fn flag(is: bool) -> &'static str {
    if is { "TRUE" } else { "FALSE" }
}

fn write_ends(r: &AlertedPacketRecord<'_>, out: &mut Vec<u8>) {
    let h = &r.header;
    let (src, dst) = (h.src.text(h.ip_version), h.dst.text(h.ip_version));
    let _ = write!(
        out,
        "SRC IP:            {src}\nDST IP:            {dst}\nPROTO:             {}\n",
        h.ip_proto.0
    );
    if let Some((src, dst)) = h.ports {
        let _ = write!(out, "SRC PORT:          {src}\nDST PORT:          {dst}\n");
    }
    if let (Some((seq, ack)), IpProto::TCP) = (r.tcp, h.ip_proto) {
        let _ = write!(out, "TCP SEQ:           {seq}\nTCP ACK:           {ack}\n");
    }
}

fn write_variables(r: &AlertedPacketRecord<'_>, out: &mut Vec<u8>) {
    (r.variables)(&mut |variable| match variable {
        Variable::Bit(name) => {
            let _ = writeln!(out, "FLOWBIT:           {name}");
        }
        Variable::Integer(name, value) => {
            let _ = writeln!(out, "FLOWINT:           \"{name}\" => {value}");
        }
        Variable::FlowText(name, text) => {
            let _ = write!(out, "FLOWVAR:           \"{name}\" => \"");
            write_escaped(text, out);
            out.extend_from_slice(b"\"\n");
        }
        Variable::PacketText(name) => {
            let _ = writeln!(out, "PKTVAR:            {name}");
        }
    });
}

fn write_packet(r: &AlertedPacketRecord<'_>, out: &mut Vec<u8>) {
    let _ = write!(out, "PACKET LEN:        {}\nPACKET:\n", r.packet.len());
    write_hex_dump(r.packet, out);
}

/// The texts of a signature, with what stands for a missing class.
fn texts<'a>(s: &AlertSignature<'a>, no_class: &'a str) -> (&'a str, &'a str) {
    let msg = if s.has_msg { s.msg } else { "(null)" };
    (msg, if s.category.is_empty() { no_class } else { s.category })
}

/// The alerts of a frame without an IP packet.
fn write_alerts_of_frame(r: &AlertedPacketRecord<'_>, out: &mut Vec<u8>) {
    let _ = writeln!(out, "ALERT CNT:         {}", r.alerts.len());
    for (n, PacketAlert { signature: s, .. }) in r.alerts.iter().enumerate() {
        let (msg, class) = texts(s, "(null)");
        let _ = write!(
            out,
            "ALERT MSG [{n:02}]:    {msg}\nALERT GID [{n:02}]:    {}\nALERT SID [{n:02}]:    {}\n\
             ALERT REV [{n:02}]:    {}\nALERT CLASS [{n:02}]:  {class}\nALERT PRIO [{n:02}]:   {}\n",
            s.gid, s.sid, s.rev, s.severity
        );
    }
}

fn write_alerts(r: &AlertedPacketRecord<'_>, out: &mut Vec<u8>) {
    let _ = writeln!(out, "ALERT CNT:           {}", r.alerts.len());
    for (n, alert) in r.alerts.iter().enumerate() {
        let s = &alert.signature;
        let (msg, class) = texts(s, "<none>");
        let found_in = match alert.found_in {
            FoundIn::Packet => "PACKET",
            FoundIn::Stream => "STREAM",
            FoundIn::State => "STATE",
        };
        let tx = alert.tx_id.map_or_else(|| "N/A".to_owned(), |id| id.to_string());
        let _ = write!(
            out,
            "ALERT MSG [{n:02}]:      {msg}\nALERT GID [{n:02}]:      {}\nALERT SID [{n:02}]:      {}\n\
             ALERT REV [{n:02}]:      {}\nALERT CLASS [{n:02}]:    {class}\nALERT PRIO [{n:02}]:     {}\n\
             ALERT FOUND IN [{n:02}]: {found_in}\nALERT IN TX [{n:02}]:    {tx}\n",
            s.gid, s.sid, s.rev, s.severity
        );
        write_bytes("PAYLOAD", r.payload, out);
        match alert.found_in {
            FoundIn::Stream | FoundIn::State => write_bytes("STREAM DATA", r.stream, out),
            FoundIn::Packet => {}
        }
    }
}

/// Bytes under their name and length, if there are any.
fn write_bytes(name: &str, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        let label = format!("{name} LEN:");
        let _ = writeln!(out, "{label:<20} {}\n{name}:", bytes.len());
        write_hex_dump(bytes, out);
    }
}

impl Format for AlertDebug {
    fn wants(&self) -> Wants {
        Wants { alerts: true, alerted_packets: true, ..Wants::default() }
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        if let Record::AlertedPacket(r) = record {
            to.put(Piece::line(self.packet(r)));
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(AlertDebug::default())
    }

    fn set_input(&mut self, name: &InputName) {
        self.is_of_interface = matches!(name, InputName::Interfaces(_));
    }
}
