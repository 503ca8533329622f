//! Flow logs in every format, the encoding of profiles, and lists of threat intelligence.

use crate::seeds::Seeds;
use gabion_behavior::Profile;
use gabion_behavior::intel::Indicator;
use gabion_behavior::intel::{Builder, Intel, Purpose, Texts};
use gabion_behavior::stages::{self, Parcel};
use gabion_flowlog::Line;
use gabion_flowlog::Reader;
use gabion_flowlog::netflow::Collector;
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::TimeNs;
use std::sync::{Arc, LazyLock};

/// File names of logs.
pub(crate) const NAMES: [&str; 20] = [
    "conn.log",
    "dns.log",
    "http.log",
    "ssl.log",
    "dhcp.log.labeled",
    "eve.json",
    "x.binetflow",
    "x.csv",
    "ssh.log",
    "files.log",
    "notice.log",
    "software.log",
    "weird.log",
    "tunnel.log",
    "smtp.log",
    "ftp.log",
    "arp.log",
    "login.log",
    "open_conn.log",
    "nfcapd.txt",
];

/// Reads any bytes as the lines of a log: every line has a verdict, and a record has the time that
/// the first pass over its line found.
pub fn lines(data: &[u8]) {
    let Some((first, text)) = data.split_first() else { return };
    let name = NAMES.get(usize::from(*first) % NAMES.len()).copied().unwrap_or("x");
    let mut reader = Reader::new(name, None);
    let mut scratch = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        let Line::Record(ts, layout) = reader.line(line) else { continue };
        if let Ok(record) = reader.record(layout, line, &mut scratch) {
            assert_eq!(record.ts, ts, "two passes over a line find different times");
        }
    }
}

/// A log of each format and of each of Zeek's kinds.
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
    let text = "Date flow start\tDuration\tProto\tSrc IP Addr:Port\tDst IP Addr:Port\tFlags\tTos\t\
                Packets\tBytes\tFlows\n2013-07-09 01:15:33.005     0.548 TCP         10.0.0.151:49161 ->\
                       10.0.0.150:3128  .APRS.   0        5      333     1\n\
                2013-07-09\t01:00:23.040\t0.028\tUDP\t8.8.8.8:53\t->\t10.0.0.150:49058\t......\t0\t1\t126\t1\n";
    let tabs = argus.replace(',', "\t");
    let spaces = "#separator  \\x09\n#path  conn\n#fields  ts  uid  id.orig_h  id.resp_h  proto\n\
                  1.5  C1  10.0.0.1  10.0.0.2  tcp\n";
    let mut all: Vec<Vec<u8>> = [
        (0u8, conn),
        (0, spaces),
        (1, json),
        (5, eve),
        (6, argus),
        (6, &tabs),
        (7, csv),
        (19, text),
    ]
    .map(|(name, text)| [&[name], text.as_bytes()].concat())
    .to_vec();
    // The fields of each of Zeek's logs in addition to times and addresses.
    for (name, more) in [
        (
            0u8,
            "\"conn_state\":\"S0\",\"duration\":2.5,\"orig_bytes\":9,\"resp_bytes\":8,\"history\":\"^dS\"",
        ),
        (
            2,
            "\"host\":\"a.b\",\"uri\":\"/\",\"user_agent\":\"x\",\"resp_mime_types\":[\"application/x-dosexec\"]",
        ),
        (
            3,
            "\"server_name\":\"a.b\",\"subject\":\"CN=*.b,O=c\",\"ja3\":\"e7d705a3286e19ea42f587b344ee6865\"",
        ),
        (
            4,
            "\"client_addr\":\"10.0.0.1\",\"requested_addr\":\"10.0.0.3\",\"mac\":\"00:11:22:33:44:55\"",
        ),
        (8, "\"auth_success\":false,\"auth_attempts\":3,\"client\":\"SSH-2.0-paramiko_2\""),
        (
            9,
            "\"tx_hosts\":[\"10.0.0.1\"],\"rx_hosts\":[\"10.0.0.2\"],\"source\":\"SSL\",\"sha1\":\"aa\"",
        ),
        (
            10,
            "\"note\":\"Scan::Port_Scan\",\"msg\":\"scanned 15 ports of host 1.1.1.1 in 0m1s\",\"src\":\"10.0.0.1\"",
        ),
        (
            11,
            "\"host\":\"10.0.0.1\",\"software_type\":\"SSH::CLIENT\",\"name\":\"x\",\"version.major\":1",
        ),
        (12, "\"name\":\"unknown_HTTP_method\",\"addl\":\"X\""),
        (13, "\"tunnel_type\":\"Tunnel::GRE\",\"action\":\"Tunnel::DISCOVER\""),
        (14, "\"last_reply\":\"550 bad smtp-auth user\""),
        (15, "\"data_channel.resp_p\":2000"),
        (
            16,
            "\"operation\":\"reply\",\"src_mac\":\"00:11:22:33:44:55\",\"dst_hw\":\"ff:ff:ff:ff:ff:ff\"",
        ),
        (17, "\"proto\":\"telnet\",\"success\":\"failed\",\"user\":\"root\""),
        (18, "\"duration\":90000,\"conn_state\":\"S1\""),
    ] {
        let mut log = vec![name];
        for second in 1..5 {
            log.extend_from_slice(
                format!(
                    "{{\"ts\":{second}.5,\"uid\":\"C{second}\",\"id.orig_h\":\"10.0.0.1\",\
                     \"id.orig_p\":{second},\"id.resp_h\":\"8.8.8.8\",\"id.resp_p\":443,{more}}}\n"
                )
                .as_bytes(),
            );
        }
        all.push(log);
    }
    all
}

/// Reads any bytes as datagrams of an exporter, each after its length: templates stay bounded, and
/// every flow is counted.
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

/// Reads any bytes as parcels on their way to a shard: every decoded parcel is processed, whatever
/// it contains.
pub fn parcel(data: &[u8]) {
    // Creating settings would take longer than the tested code.
    static SETTINGS: LazyLock<Arc<gabion_behavior::Settings>> = LazyLock::new(Arc::default);
    let mut shards = gabion_behavior::stages::Shards::new(Arc::clone(&SETTINGS), 1 << 20);
    let mut found = Vec::new();
    let mut rest = data;
    while let Some((parcel, behind)) = stages::take_parcel(rest) {
        if let Some((ahead, same)) = stages::ahead(rest) {
            assert_eq!(same.len(), behind.len(), "the prefetch ends at the end of the parcel");
            shards.prefetch(ahead.into_iter());
        }
        rest = behind;
        match parcel {
            Parcel::Turn(window, number, watermark) => {
                shards.turn(window, number, watermark, &mut found);
            }
            Parcel::Record(number, ends, r, facts) => {
                shards.record(number, &r, &facts, ends, &mut found);
            }
        }
    }
    shards.ledger().balance().expect("sources balance");
}

/// Parcels of a record of each kind of log, from the seeds of lines.
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
                    gabion_behavior::stages::Facts { window: 1, newest: 1, ..Default::default() };
                stages::put_record(
                    1,
                    gabion_behavior::stages::Ends::Both,
                    &record,
                    &facts,
                    &mut batch,
                );
                stages::put_turn(2, 1, record.ts, &mut batch);
            }
        }
    }
    vec![batch]
}

/// Reads any bytes as an encoded profile: a decoded profile encodes to the same bytes.
pub fn profile(data: &[u8]) {
    let Some(profile) = Profile::decode(data) else { return };
    let mut bytes = Vec::new();
    profile.encode(&mut bytes);
    let Some(mut again) = Profile::decode(&bytes) else {
        panic!("an encoded profile can't be decoded")
    };
    let mut second = Vec::new();
    again.encode(&mut second);
    assert!(bytes == second, "an encoding is not stable");
    again.merge(profile);
}

/// Profiles with some records.
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

/// The text of a list, which is read again when evidence is written.
struct Held(Vec<u8>);

impl Texts for Held {
    fn read_text(&self, _: usize, offset: u64, len: usize) -> Option<Vec<u8>> {
        let from = usize::try_from(offset).ok()?;
        let rest = self.0.get(from..)?;
        Some(rest.get(..len.min(rest.len())).unwrap_or_default().to_vec())
    }
}

/// A list for a purpose, read in pieces of the given size.
fn list(purpose: Purpose, text: &[u8], piece: usize) -> Intel {
    let mut builder = Builder::default();
    assert!(builder.file("x", ThreatLevel::Medium, purpose));
    text.chunks(piece.max(1)).for_each(|part| builder.push(part));
    builder.finish(Some(Box::new(Held(text.to_vec()))))
}

/// Reads any bytes as a list of threat intelligence for any purpose: the entries do not depend on
/// the pieces, and each word can be looked up and described.
pub fn intel(data: &[u8]) {
    let [purpose, piece, text @ ..] = data else { return };
    let purpose = match purpose % 8 {
        0..3 => Purpose::Indicators,
        3 => Purpose::TorExits,
        4 => Purpose::Harmless,
        5 => Purpose::Systems,
        6 => Purpose::Ages,
        _ => Purpose::Makers,
    };
    let whole = list(purpose, text, usize::MAX);
    let parts = list(purpose, text, usize::from(*piece));
    let counts = |intel: &Intel| intel.sources().first().map(|s| s.counts.clone());
    assert_eq!(counts(&whole), counts(&parts), "a split changes the counts");
    assert_eq!(whole.len(), parts.len(), "a split changes the entries");
    let is_end = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b';' | b'\'' | b'"' | b'#');
    for word in text.split(is_end).filter(|w| !w.is_empty()).take(64) {
        let asked = [
            (whole.domain(word), Indicator::Domain(word)),
            (whole.url(word, b"/a"), Indicator::Url(word)),
            (whole.hash(word), Indicator::Hash(word)),
        ];
        for (found, what) in asked {
            let _ = found.and_then(|m| whole.entry(&m, &what, TimeNs(0)));
        }
        if let Some(ip) = Ip::parse(word) {
            let found = whole.ip(ip);
            let _ = found.and_then(|m| whole.entry(&m, &Indicator::Ip(ip), TimeNs(0)));
            assert_eq!(whole.asn_of(ip), parts.asn_of(ip));
            assert_eq!(whole.is_tor_exit(ip), parts.is_tor_exit(ip));
        }
        assert_eq!(whole.ages().get(word), parts.ages().get(word));
    }
}

/// A list of each form.
pub fn intel_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let stix = "{\"type\":\"bundle\",\"objects\":[{\"type\":\"indicator\",\"name\":\"x\",\"pattern_type\":\"stix\",\
                \"pattern\":\"[ipv4-addr:value = '8.8.4.4' OR domain-name:value = 'a.example']\",\"confidence\":80,\
                \"valid_from\":\"2020-01-01T00:00:00Z\",\"valid_until\":\"2030-01-01T00:00:00Z\"}]}";
    let csv = "# c\nip,level,description\n8.8.8.8, high,dns,\"tag\"\n9.9.0.0/16,low,net\nbad.example,medium,x\nAS64500,high\n\
               e7d705a3286e19ea42f587b344ee6865,high,ja3\nhttps://bad.example/a,low\n";
    let hosts = "0.0.0.0 ads.example\n127.0.0.1 localhost\n";
    let array = "[{\"DomainAddress\":\"bad.example\",\"InsertDate\":\"2024-01-01 00:00:00\"}]";
    let systems = "8.8.8.0,8.8.8.255,15169,GOOGLE\n";
    let (ages, makers) = ("bad.example,2024-01-01\n", "00:11:22\tApple\n");
    let harmless = "calc.exe, d41d8cd98f00b204e9800998ecf8427e\n";
    [
        (0u8, stix),
        (0, csv),
        (1, hosts),
        (2, array),
        (3, "8.8.8.8\n"),
        (4, harmless),
        (5, systems),
        (6, ages),
        (7, makers),
    ]
    .map(|(purpose, text)| [&[purpose, 7], text.as_bytes()].concat())
    .to_vec()
}
