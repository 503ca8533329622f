//! Inputs of whole-engine tests: the corpus' logs of flows where they are, and logs made here.
#![allow(dead_code, reason = "each test uses some of them")]

use gabion_flowlog::{Feed, Options};
use gabion_record::files::FileOpener;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The folder of logs of flows, when the corpus is there.
pub(crate) fn corpus(test: &str) -> Option<PathBuf> {
    gabion_corpus::find(test, "flows")
}

const FIELDS: &str = "ts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\tduration\t\
    orig_bytes\tresp_bytes\tconn_state\thistory\torig_pkts\torig_ip_bytes\tresp_pkts\tresp_ip_bytes";

/// An hour of four hundred hosts that talk with a few servers each, thirty flows a host; one of a hundred
/// scans instead.
pub(crate) fn usual(folder: &Path) -> PathBuf {
    let mut conn = format!("#separator \\x09\n#path\tconn\n#fields\t{FIELDS}\n");
    for n in 0..12_000i64 {
        let (host, visit) = (n % 400, n / 400);
        let (dst, port, state) = match host % 100 {
            7 => (format!("10.1.{}.{visit}", host % 9), 23, "S0"),
            _ => (format!("1.2.{}.{}", host % 17, visit % (2 + host % 5)), 443, "SF"),
        };
        let ts = START as f64 + n as f64 * 0.3;
        let _ = writeln!(
            conn,
            "{ts:.3}\tC{n}\t10.0.{}.{}\t40000\t{dst}\t{port}\ttcp\tssl\t1.5\t300\t900\t{state}\tSh\t6\t600\t5\t900",
            host / 250,
            host % 250
        );
    }
    let path = folder.join("conn.log");
    std::fs::write(&path, conn).unwrap();
    path
}

/// All files below a folder, or the file.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(path).unwrap().flat_map(|e| files(&e.unwrap().path())).collect();
    all.sort();
    all
}

/// A feed of these files.
pub(crate) fn feed(paths: &[PathBuf]) -> Feed {
    let opener = FileOpener::new(|path, _| std::fs::File::open(path));
    Feed::survey(&opener, paths, Options::default())
}

const START: i64 = 1_700_000_000;

/// Logs of three hours of a site of sixty hosts: some scan, one calls again and again, some are spoofed,
/// others browse.
pub(crate) fn made(folder: &Path) -> Vec<PathBuf> {
    let mut conn = format!("#separator \\x09\n#path\tconn\n#fields\t{FIELDS}\n");
    let mut dns = String::new();
    let mut http = String::new();
    for n in 0..6_000i64 {
        let at = START * 1000 + n * 1800;
        let ts = format!("{}.{:03}", at / 1000, at % 1000);
        let host = format!("10.0.{}.{}", n % 3, n % 20);
        let (src, dst, port, state) = match n % 6 {
            0 => ("10.0.9.1".to_owned(), format!("10.0.{}.{}", n / 250 % 200, n % 250), 23, "S0"),
            1 => ("10.0.9.2".to_owned(), "10.0.1.1".to_owned(), n / 6 % 3000, "REJ"),
            2 => (format!("{}.{}.3.4", 60 + n % 97, n % 250), "10.0.1.2".to_owned(), 4444, "S0"),
            3 if n % 36 == 3 => ("10.0.9.3".to_owned(), "9.9.9.9".to_owned(), 443, "SF"),
            4 => (host.clone(), "192.168.3.3".to_owned(), 8081, "SF"),
            _ => (host.clone(), format!("1.2.{}.{}", n % 7, n % 31), 443, "SF"),
        };
        let _ = writeln!(
            conn,
            "{ts}\tC{n}\t{src}\t40000\t{dst}\t{port}\ttcp\t-\t{}.5\t{}\t900\t{state}\tShADadFf\t6\t600\t5\t1200",
            n % 40,
            300 + n % 4 * 100
        );
        if n % 9 == 0 {
            let _ = writeln!(
                dns,
                "{{\"ts\":{ts},\"uid\":\"D{n}\",\"id.orig_h\":\"{host}\",\"id.orig_p\":5,\"id.resp_h\":\
                 \"10.0.0.53\",\"id.resp_p\":53,\"proto\":\"udp\",\"query\":\"n{}.example\",\"qtype_name\":\
                 \"A\",\"rcode_name\":\"{}\",\"answers\":[\"1.2.{}.{}\"]}}",
                n % 400,
                if n % 2 == 0 { "NXDOMAIN" } else { "NOERROR" },
                n % 7,
                n % 31
            );
        }
        if n % 25 == 0 {
            let _ = writeln!(
                http,
                "{{\"ts\":{ts},\"uid\":\"H{n}\",\"id.orig_h\":\"{host}\",\"id.orig_p\":5,\"id.resp_h\":\
                 \"1.2.3.4\",\"id.resp_p\":80,\"method\":\"GET\",\"host\":\"www.google.com\",\"uri\":\"/\",\
                 \"user_agent\":\"agent {} (Windows)\"}}",
                n % 3
            );
        }
    }
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    vec![write("conn.log", conn), write("dns.log", dns), write("http.log", http)]
}
