//! What the network engine finds in captures, as typed records for the behaviour engine.
//!
//! The format makes a [`Record`] of each flow, transaction, file, ARP packet and alert, and packs it. Times have whole
//! microseconds, as those of EVE have: a capture and the EVE of it give the same evidence. Records of one moment are in
//! order of the time that they were made at, of their flow's id as a text, of their packet and of their type.

use gabion_outputs::{FlowRecordHead, Format, Piece, PieceKind, Pieces, Record as NetRecord};
use gabion_record::eve::{
    AlertRecord, AppRecord, FileRecord, FlowRecord, Header, Wants, WriteObject,
};
use gabion_record::flow_state::FlowState;
use gabion_record::hex::push_hex;
use gabion_record::logs::{
    Body, Conn, ConnState, Dhcp, Files, Label, Mac, Proto, Record, RuleAlert, Service, TimeNs,
    have_both_talked,
};
use gabion_record::packed::put_record;
use gabion_record::{Addr, Direction, Ip, TxReport};

/// Bytes before each record that decide its order among records of its moment.
pub(super) const ORDER_LEN: usize = 8 + 1 + FLOW_ID_LEN + 9 + 1 + 16;

/// Digits of the longest flow id.
const FLOW_ID_LEN: usize = 20;

/// The format; it has the room of the last record.
#[derive(Default)]
pub(super) struct FlowRecords {
    bytes: Vec<u8>,
}

impl Format for FlowRecords {
    fn wants(&self) -> Wants {
        Wants {
            alerts: true,
            app: true,
            files: true,
            md5: true,
            sha1: true,
            flows: true,
            macs: true,
            arp: true,
            ja3: true,
            ..Wants::default()
        }
    }

    fn write_record(&mut self, record: &NetRecord<'_>, to: &mut dyn Pieces) -> bool {
        match record {
            NetRecord::Alert(r) => self.alert(r, to),
            NetRecord::App(r) => self.app(r, to),
            NetRecord::File(r) => self.file(r, to),
            NetRecord::Flow(r) => self.flow(r, to),
            NetRecord::Arp(h, object) => self.transaction(h, *object, [0; 2], to),
            NetRecord::FileChunk(_)
            | NetRecord::Netflow(..)
            | NetRecord::Anomaly(_)
            | NetRecord::Drop(_)
            | NetRecord::Packet(_)
            | NetRecord::Frame(_)
            | NetRecord::Stream(_)
            | NetRecord::Wire(_)
            | NetRecord::AlertedPacket(_)
            | NetRecord::StreamData(_)
            | NetRecord::Certificates(_)
            | NetRecord::Metadata(_)
            | NetRecord::Stats(..)
            | NetRecord::Evidence(_)
            | NetRecord::HostAlert(_)
            | NetRecord::Guard(_)
            | NetRecord::SyscallAlert(_) => false,
        }
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(FlowRecords::default())
    }
}

/// The ends of a record.
#[derive(Clone, Copy)]
struct Ends {
    src: Ip,
    dst: Ip,
    ports: (u16, u16),
}

impl Ends {
    /// Those of a packet or flow; none without an IP layer.
    fn from_header(h: &Header<'_>) -> Option<Ends> {
        let ip = |a: Addr| match h.ip_version {
            4 => Some(Ip::v4(a.v4_u32())),
            6 => Some(Ip::from_bytes(a.0)),
            _ => None,
        };
        Some(Ends { src: ip(h.src)?, dst: ip(h.dst)?, ports: h.ports.unwrap_or((0, 0)) })
    }

    fn reversed(self) -> Ends {
        Ends { src: self.dst, dst: self.src, ports: (self.ports.1, self.ports.0) }
    }

    /// Those of a transaction's record, whose source is the client.
    fn of_report(h: &Header<'_>, report: &TxReport<'_>) -> Option<Ends> {
        if let Some((src, dst)) = report.ends {
            return Some(Ends { src, dst, ports: (0, 0) });
        }
        let ends = Ends::from_header(h)?;
        Some(match report.body {
            Body::Dns(_) if report.is_response && ends.ports.0 == 53 && ends.ports.1 != 53 => {
                ends.reversed()
            }
            // A client without an address has the one that it is given, or keeps none.
            Body::Dhcp(_) => {
                let sides = (ends.src, ends.dst);
                let (client, server) = if report.is_response { (sides.1, sides.0) } else { sides };
                let mut known = report.client.into_iter().flatten().chain([client]);
                let src = known.find(|ip| !ip.is_unspecified()).unwrap_or(client);
                Ends { src, dst: server, ports: ends.ports }
            }
            _ => ends,
        })
    }
}

/// A moment in whole microseconds.
fn moment(ts_ns: u64) -> Option<TimeNs> {
    i64::try_from(ts_ns / 1000 * 1000).ok().map(TimeNs)
}

impl FlowRecords {
    fn flow(&mut self, r: &FlowRecord<'_>, to: &mut dyn Pieces) -> bool {
        let h = &r.header;
        let (start, end) = (moment(r.summary.start_ns), moment(r.end_ns));
        let proto = Proto::from_ip(h.ip_proto);
        let flags = r.tcp.map(|t| t.flags_by_direction.into());
        let packets = r.summary.pkts.into();
        let mac = |all: &[[u8; 6]]| all.first().copied().map(Mac);
        let conn = Conn {
            service: Service::from_app_proto(r.app_proto.app_proto.unwrap_or_default().as_bytes()),
            knows_service: true,
            duration_ns: start.zip(end).map_or(0, |(start, end)| end.since(start).max(0)),
            orig_bytes: r.summary.bytes[0],
            resp_bytes: r.summary.bytes[1],
            orig_pkts: r.summary.pkts[0],
            resp_pkts: r.summary.pkts[1],
            state: ConnState::from_text(r.state.name().as_bytes()),
            is_established: have_both_talked(
                proto == Proto::Tcp,
                flags,
                packets,
                r.state == FlowState::Established,
            ),
            src_mac: mac(r.macs.0),
            dst_mac: mac(r.macs.1),
            ..Conn::default()
        };
        // A flow's record is made when the flow ends, with whatever packet is at hand then.
        let h = Header { pcap_cnt: None, ..*h };
        self.put(&h, start, (Ends::from_header(&h), Body::Conn(conn)), [0; 2], to)
    }

    fn app(&mut self, r: &AppRecord<'_>, to: &mut dyn Pieces) -> bool {
        self.transaction(&r.header, r.object, [r.tx_id, 0], to)
    }

    /// A transaction, or what else the engine reports as one.
    fn transaction(
        &mut self,
        h: &Header<'_>,
        object: &dyn WriteObject,
        tie: [u64; 2],
        to: &mut dyn Pieces,
    ) -> bool {
        let mut is_taken = false;
        object.report(&mut |report| {
            let ends = Ends::of_report(h, report);
            let body = match report.body {
                Body::Dhcp(dhcp) if report.is_response => {
                    Body::Dhcp(Dhcp { server: Ends::from_header(h).map(|ends| ends.src), ..dhcp })
                }
                body => body,
            };
            is_taken |= self.put(h, moment(h.ts_ns), (ends, body), tie, to);
        });
        is_taken
    }

    fn file(&mut self, r: &FileRecord<'_>, to: &mut dyn Pieces) -> bool {
        let hex = |hash: Option<&[u8]>| {
            let mut text = Vec::new();
            push_hex(&mut text, hash.unwrap_or_default());
            text
        };
        let f = &r.file;
        let files = Files {
            source: r.app_proto.app_proto.unwrap_or_default().as_bytes(),
            md5: &hex(f.md5.as_ref().map(<[u8; 16]>::as_slice)),
            sha1: &hex(f.sha1.as_ref().map(<[u8; 20]>::as_slice)),
            total_bytes: f.size,
            mime_type: &[],
        };
        let h = &r.header;
        self.put(h, moment(h.ts_ns), (Ends::from_header(h), Body::Files(files)), [f.tx_id, 0], to)
    }

    /// An alert is a record of the flow's client, whichever side's packet completed it.
    fn alert(&mut self, r: &AlertRecord<'_>, to: &mut dyn Pieces) -> bool {
        let (h, s) = (&r.header, &r.signature);
        let is_to_client = r.direction == Some(Direction::ToClient);
        let ends =
            Ends::from_header(h).map(|ends| if is_to_client { ends.reversed() } else { ends });
        let alert = RuleAlert {
            signature: s.msg.as_bytes(),
            category: s.category.as_bytes(),
            gid: s.gid.max(1),
            sid: s.sid,
            severity: u8::try_from(s.severity).unwrap_or(u8::MAX),
            confidence: s.confidence,
        };
        let tx = r.tx_id.map_or(0, |id| id.saturating_add(1));
        let tie = [tx, u64::from(s.gid) << 32 | u64::from(s.sid)];
        self.put(h, moment(h.ts_ns), (ends, Body::RuleAlert(alert)), tie, to)
    }

    /// Packs a record; `tie` orders records of one packet, flow and type. True, as each counts as an event.
    fn put(
        &mut self,
        h: &Header<'_>,
        ts: Option<TimeNs>,
        (ends, body): (Option<Ends>, Body<'_>),
        tie: [u64; 2],
        to: &mut dyn Pieces,
    ) -> bool {
        self.bytes.clear();
        let head = match (ts, ends) {
            (None, _) => FlowRecordHead::NoTime,
            (_, None) => FlowRecordHead::NoAddress,
            (Some(ts), Some(Ends { src, dst, ports })) => {
                let mut number = itoa::Buffer::new();
                let uid = h.flow_id.map_or("", |id| number.format(id)).as_bytes();
                let proto = match body {
                    Body::Arp(_) => Proto::Arp,
                    _ => Proto::from_ip(h.ip_proto),
                };
                put_order(h, uid, &body, tie, &mut self.bytes);
                let record = Record {
                    ts,
                    src,
                    dst,
                    src_port: ports.0,
                    dst_port: ports.1,
                    proto,
                    uid,
                    label: Label::None,
                    is_late: false,
                    body,
                };
                put_record(&record, &mut self.bytes);
                FlowRecordHead::At(ts)
            }
        };
        to.put(Piece { kind: PieceKind::FlowRecord(head), bytes: &self.bytes, later: &[] });
        true
    }
}

/// Appends what decides the order of a record among those of its moment.
fn put_order(h: &Header<'_>, uid: &[u8], body: &Body<'_>, tie: [u64; 2], out: &mut Vec<u8>) {
    out.extend_from_slice(&(h.ts_ns / 1000).to_be_bytes());
    // Packets without a flow come after those of flows.
    out.push(if uid.is_empty() { 2 } else { 1 });
    let mut flow = [0; FLOW_ID_LEN];
    if let Some(place) = flow.get_mut(..uid.len()) {
        place.copy_from_slice(uid);
    }
    out.extend_from_slice(&flow);
    out.push(u8::from(h.pcap_cnt.is_some()));
    out.extend_from_slice(&h.pcap_cnt.unwrap_or(0).to_be_bytes());
    out.push(type_order(body));
    tie.iter().for_each(|part| out.extend_from_slice(&part.to_be_bytes()));
}

/// The place of a record's type among those of one packet: alerts are before what they are about.
fn type_order(body: &Body<'_>) -> u8 {
    match body {
        Body::RuleAlert(_) => 0,
        Body::Arp(_) => 1,
        Body::Dhcp(_) => 2,
        Body::Dns(_) => 3,
        Body::Files(_) => 4,
        Body::Conn(_) => 5,
        Body::Ftp(_) => 6,
        Body::Http(_) => 7,
        Body::Ssh(_) => 8,
        Body::Ssl(_) => 9,
        // The network engine reports none of these.
        Body::Notice(_)
        | Body::Software(_)
        | Body::Weird(_)
        | Body::Tunnel(_)
        | Body::Smtp(_)
        | Body::Login(_)
        | Body::OpenConn(_) => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{Input, InputOpener, read_capture};
    use gabion_flowlog::{Format as LogFormat, Line, Reader, Skip};
    use gabion_net::Engine;
    use gabion_outputs::{Destination, Output, Outputs, eve};
    use gabion_record::packed::take_record;
    use gabion_settings::yaml::read_yaml_text;
    use gabion_settings::{EngineMode, RuleFile};
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};

    /// EVE with all that a record is made of.
    const EVENTS: &str = "\
ethernet: yes
metadata: no
types:
  - flow
  - alert
  - dns
  - http:
      extended: yes
  - http2
  - doh2
  - tls:
      custom: [subject, issuer, session_resumed, serial, fingerprint, sni, version, ja3, ja3s]
  - ssh
  - files:
      force-hash: [md5, sha1]
  - ftp
  - dhcp:
      extended: yes
  - arp:
      enabled: yes
";

    type Lines = Arc<Mutex<Vec<String>>>;

    fn shown(record: &Record<'_>) -> String {
        // EVE has the values of a rule's metadata as an array.
        let words: String = match &record.body {
            Body::RuleAlert(alert) => String::from_utf8_lossy(alert.confidence)
                .chars()
                .filter(char::is_ascii_alphabetic)
                .collect(),
            _ => String::new(),
        };
        let body = match record.body {
            Body::RuleAlert(alert) => {
                Body::RuleAlert(RuleAlert { confidence: words.as_bytes(), ..alert })
            }
            body => body,
        };
        format!("{:?}", Record { body, ..*record })
    }

    /// Reads lines of EVE as a log of flows is read.
    struct ReadEve(Reader, Lines);

    impl Destination for ReadEve {
        fn write(&mut self, piece: &Piece<'_>) {
            let line = piece.bytes.trim_ascii_end();
            let mut scratch = Vec::new();
            let found = match self.0.line(line) {
                Line::Record(_, layout) => match self.0.record(layout, line, &mut scratch) {
                    Ok(record) => shown(&record),
                    Err(Skip::UnusedEvent) => return,
                    Err(skip) => skip.name().to_string(),
                },
                Line::Skip(Skip::UnusedEvent) => return,
                Line::Skip(skip) => skip.name().to_string(),
                Line::Quiet => return,
            };
            self.1.lock().unwrap().push(found);
        }
    }

    /// Takes records as they are.
    struct Taken(Lines);

    impl Destination for Taken {
        fn write(&mut self, piece: &Piece<'_>) {
            let PieceKind::FlowRecord(head) = piece.kind else { panic!("{:?}", piece.kind) };
            let found = match head {
                FlowRecordHead::At(ts) => {
                    let record = take_record(&mut &piece.bytes[ORDER_LEN..]).unwrap();
                    assert_eq!(record.ts, ts);
                    shown(&record)
                }
                FlowRecordHead::NoAddress => Skip::NoAddress.name().to_string(),
                FlowRecordHead::NoTime => Skip::NoTime.name().to_string(),
            };
            self.0.lock().unwrap().push(found);
        }
    }

    struct Both {
        outputs: Outputs,
        engine: Arc<Engine>,
        eve: Lines,
        typed: Lines,
    }

    impl Both {
        fn new() -> Both {
            let config = gabion_settings::built_in_configuration();
            let catalog = gabion_proto::registry::catalog();
            let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/gabion.rules");
            let text = std::fs::read_to_string(demo).unwrap();
            let file = RuleFile { name: "demo".to_string(), parts: vec![text], is_firewall: false };
            let scripts = gabion_settings::script_setup(&config, Default::default());
            let demands = Default::default();
            let c =
                gabion_settings::compile_rules(&config, vec![file], &catalog, demands, &scripts);
            let (eve, typed) = (Lines::default(), Lines::default());
            let mut outputs = Outputs::default();
            let node = read_yaml_text("events", EVENTS).unwrap();
            let reader = Reader::new("eve.json", Some(LogFormat::Eve));
            outputs.add(eve::events_output(&node, ReadEve(reader, Arc::clone(&eve))));
            outputs.add(Output::new(FlowRecords::default(), Taken(Arc::clone(&typed))));
            let rules = Some((c.set, c.datasets));
            let (wants, mode) = (outputs.wants(), EngineMode::default());
            let engine = gabion_settings::build_engine(
                &config,
                (rules, None),
                catalog,
                wants,
                mode,
                scripts,
            );
            Both { outputs, engine: Arc::new(engine.unwrap()), eve, typed }
        }

        /// Compares the records of a capture, typed and read from EVE; returns how many there are.
        fn compare(&mut self, path: PathBuf) -> usize {
            let input = Input::capture(path, true);
            let opener = InputOpener::new(gabion_runtime::files::direct_opener());
            read_capture(&self.engine, (&opener, &input), &mut self.outputs);
            let eve = std::mem::take(&mut *self.eve.lock().unwrap());
            let typed = std::mem::take(&mut *self.typed.lock().unwrap());
            let path = input.path.display();
            for (at, (eve, typed)) in eve.iter().zip(&typed).enumerate() {
                assert_eq!(typed, eve, "{path}: record {at}");
            }
            assert_eq!(typed.len(), eve.len(), "{path}");
            typed.len()
        }
    }

    #[test]
    fn records_of_the_demo_are_those_of_its_eve() {
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/demo.pcap");
        let records = Both::new().compare(demo);
        assert!(records > 450, "{records}");
    }

    #[test]
    fn records_of_the_corpus_are_those_of_its_eve() {
        let test = "records_of_the_corpus_are_those_of_its_eve";
        let Some(folder) = gabion_corpus::find(test, "captures") else { return };
        let captures = gabion_capture::list_recursive(&folder).unwrap();
        let mut both = Both::new();
        let (mut files, mut records) = (0, 0);
        for path in captures {
            let more = both.compare(path);
            files += usize::from(more > 0);
            records += more;
        }
        assert!(files > 500 && records > 10_000, "{files} {records}");
    }

    /// Records of one moment are in order of flow, packet and type, whatever the order in which they were made.
    #[test]
    fn the_order_of_one_moment_is_flow_packet_type() {
        let header = |flow_id, pcap_cnt| Header {
            ts_ns: 1_000_000_000,
            flow_id,
            parent_id: None,
            pcap_cnt,
            device: 0,
            vlan: &[],
            ip_version: 4,
            src: Addr::v4([1, 2, 3, 4]),
            dst: Addr::v4([5, 6, 7, 8]),
            ports: None,
            ip_proto: gabion_record::IpProto::TCP,
            icmp: None,
            spi: None,
            pkt_src: None,
            metadata: None,
            ether: None,
        };
        let alert = Body::RuleAlert(RuleAlert::default());
        let order = |flow: Option<u64>, packet, body, tie| {
            let uid = flow.map(|id| id.to_string()).unwrap_or_default();
            let mut out = Vec::new();
            put_order(&header(flow, packet), uid.as_bytes(), &body, tie, &mut out);
            assert_eq!(out.len(), ORDER_LEN);
            out
        };
        let files = Body::Files(Files::default());
        let sorted = [
            order(Some(12), None, Body::Conn(Conn::default()), [0; 2]),
            order(Some(12), Some(99), alert, [0, 1]),
            order(Some(12), Some(99), alert, [0, 2]),
            order(Some(12), Some(99), files, [0; 2]),
            order(Some(12), Some(100), alert, [0, 1]),
            order(Some(5), Some(1), alert, [0, 1]),
            order(None, Some(1), alert, [0, 1]),
        ];
        assert!(sorted.is_sorted());
    }
}
