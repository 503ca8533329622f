//! Logs of flows, in every format, and the encoding of profiles.

use crate::seeds::Seeds;
use gabion_behavior::Profile;
use gabion_behavior::parcel::{self, Parcel};
use gabion_flowlog::Reader;
use gabion_flowlog::netflow::Collector;
use gabion_flowlog::reader::Line;
use gabion_record::Ip;

/// Names that a log may come by.
const NAMES: [&str; 8] = [
    "conn.log",
    "dns.log",
    "http.log",
    "ssl.log",
    "dhcp.log.labeled",
    "eve.json",
    "x.binetflow",
    "x.csv",
];

/// Any bytes as the lines of a log: every line has a verdict, and a record has the moment that the
/// first look at its line gave.
pub fn lines(data: &[u8]) {
    let Some((first, text)) = data.split_first() else { return };
    let name = NAMES.get(usize::from(*first) % NAMES.len()).copied().unwrap_or("x");
    let mut reader = Reader::new(name, None);
    let mut scratch = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        let Line::Record(ts, layout) = reader.line(line) else { continue };
        if let Ok(record) = reader.record(layout, line, &mut scratch) {
            assert_eq!(record.ts, ts, "two looks at a line give two moments");
        }
    }
}

/// One line of each format.
pub fn line_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let conn = "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\t\
                id.resp_p\tproto\tservice\n1.5\tC1\t10.0.0.1\t5\t10.0.0.2\t80\ttcp\t-\n";
    let json = "{\"ts\":1.5,\"uid\":\"C1\",\"id.orig_h\":\"10.0.0.1\",\"id.resp_h\":\"10.0.0.2\",\
                \"query\":\"a\\u00e9.b\",\"answers\":[\"1.2.3.4\"]}\n";
    let eve = "{\"timestamp\":\"2021-06-06T15:59:46.457984+0200\",\"event_type\":\"flow\",\
               \"src_ip\":\"10.0.0.1\",\"dest_ip\":\"10.0.0.2\",\"proto\":\"TCP\",\
               \"flow\":{\"pkts_toserver\":1,\"start\":\"2021-06-06T15:59:46+0200\"}}\n";
    let argus = "StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,State,TotPkts,TotBytes,SrcBytes\n\
                 2018/09/27 22:40:52.362768,193.8,tcp,192.168.2.1,5,->,192.168.2.12,22,S_RA,3,37,12\n";
    let csv = "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt\n\
               2018-01-12 15:37:47,x,1.0,10.0.0.1,10.0.0.2,5,80,TCP,......S.,0,0,5,300\n";
    [(0u8, conn), (1, json), (5, eve), (6, argus), (7, csv)]
        .map(|(name, text)| [&[name], text.as_bytes()].concat())
        .to_vec()
}

/// Any bytes as datagrams of an exporter, each behind its length: templates stay bounded, and every
/// flow has two addresses and a count.
pub fn netflow(data: &[u8]) {
    let mut collector = Collector::default();
    let mut rest = data;
    let mut flows = 0;
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(behind.len());
        let (datagram, behind) = behind.split_at(len);
        rest = behind;
        collector.datagram(Ip::v4(1), datagram, &mut |_| flows += 1);
    }
    assert_eq!(collector.counts.flows, flows, "flows are counted");
    assert!(collector.templates_held() <= gabion_flowlog::limits::TEMPLATES_MAX);
}

/// A datagram of version 5, and a template with its data of version 9 and of IPFIX.
pub fn netflow_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let words = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let five = [words(&[5, 1]), vec![0; 20], vec![10; 48]].concat();
    let template = words(&[256, 4, 8, 4, 12, 4, 7, 2, 1, 4]);
    let row = [10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0, 0, 0, 9];
    let set = |id: u16, body: &[u8]| [words(&[id, body.len() as u16 + 4]), body.to_vec()].concat();
    let nine = [words(&[9, 2]), vec![0; 16], set(0, &template), set(256, &row)].concat();
    let sets = [set(2, &template), set(256, &row)].concat();
    let ipfix = [words(&[10, 16 + sets.len() as u16]), vec![0; 12], sets].concat();
    [five, nine, ipfix].into_iter().map(|d| [words(&[d.len() as u16]), d].concat()).collect()
}

/// Any bytes as parcels on their way to a shard: what is taken is taken up, whatever it says.
pub fn parcel(data: &[u8]) {
    let settings = std::sync::Arc::new(gabion_behavior::Settings::default());
    let mut shards = gabion_behavior::Shards::new(settings, 1 << 20);
    let mut found = Vec::new();
    let mut rest = data;
    while let Some((parcel, behind)) = parcel::take(rest) {
        if let Some((ahead, same)) = parcel::ahead(rest) {
            assert_eq!(same.len(), behind.len(), "a look ahead ends where the parcel does");
            shards.expect(ahead.into_iter());
        }
        rest = behind;
        match parcel {
            Parcel::Turn(window, watermark) => shards.turn(window, watermark, &mut found),
            Parcel::Record(number, ends, r, facts) => {
                shards.record(number, &r, &facts, ends, &mut found);
            }
        }
    }
    shards.ledger().balance().expect("sources balance");
}

/// A record of each kind of log among the seeds of lines.
pub fn parcel_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut batch = Vec::new();
    let mut scratch = Vec::new();
    for text in line_seeds(seeds) {
        let Some((name, text)) = text.split_first() else { continue };
        let mut reader = Reader::new(NAMES.get(usize::from(*name)).copied().unwrap_or("x"), None);
        for line in text.split(|b| *b == b'\n') {
            let Line::Record(_, layout) = reader.line(line) else { continue };
            if let Ok(record) = reader.record(layout, line, &mut scratch) {
                let facts =
                    gabion_behavior::site::Facts { window: 1, newest: 1, ..Default::default() };
                parcel::put_record(1, gabion_behavior::Ends::Both, &record, &facts, &mut batch);
                parcel::put_turn(2, record.ts, &mut batch);
            }
        }
    }
    vec![batch]
}

/// Any bytes as an encoded profile: what is taken encodes and decodes to the same.
pub fn profile(data: &[u8]) {
    let Some(profile) = Profile::decode(data) else { return };
    let mut bytes = Vec::new();
    profile.encode(&mut bytes);
    let Some(mut again) = Profile::decode(&bytes) else { panic!("an encoding is no encoding") };
    let mut second = Vec::new();
    again.encode(&mut second);
    assert!(bytes == second, "an encoding changes");
    again.merge(profile);
}

/// Profiles that have seen something.
pub fn profile_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut engine = gabion_behavior::Engine::new(gabion_behavior::Settings::default(), None);
    let mut scratch = Vec::new();
    for text in line_seeds(seeds) {
        let Some((_, text)) = text.split_first() else { continue };
        let mut reader = Reader::new("conn.log", None);
        for _ in 0..3 {
            for line in text.split(|b| *b == b'\n') {
                let Line::Record(_, layout) = reader.line(line) else { continue };
                if let Ok(record) = reader.record(layout, line, &mut scratch) {
                    engine.record(&record, &mut |_| {});
                }
            }
        }
    }
    let encode = |p: &Profile| {
        let mut bytes = Vec::new();
        p.encode(&mut bytes);
        bytes
    };
    engine.profiles().map(encode).collect()
}
