//! Logs of flows, in every format, and the encoding of profiles.

use crate::seeds::Seeds;
use gabion_behavior::Profile;
use gabion_flowlog::Reader;
use gabion_flowlog::reader::Line;

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
