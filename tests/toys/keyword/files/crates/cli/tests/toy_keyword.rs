//! A keyword that no one has, from end to end: rules with it, what is wrong with its use, its row in
//! the listing, and its name in the reports on rules.

mod program;

use program::gabion;
use program::packets::{CLIENT, SERVER, capture, ipv4, udp};

#[test]
fn rules_match_datagrams_of_an_odd_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let rules = "alert udp any any -> any any (msg:\"odd\"; udp.len_odd; sid:1;)\n\
                 alert udp any any -> any any (msg:\"odd, long\"; udp.len_odd; dsize:>4; sid:2;)\n\
                 alert tcp any any -> any any (msg:\"never\"; udp.len_odd; sid:3;)\n";
    std::fs::write(path("odd.rules"), rules).unwrap();
    let packet = |payload: &[u8]| ipv4(17, 1, 0, [CLIENT, SERVER], &udp([4000, 4001], payload));
    let capture =
        capture(dir.path(), "c.pcap", &[packet(b"abc"), packet(b"abcd"), packet(b"abcde")]);
    let ran = gabion(&["read", "-q", "-S", &path("odd.rules"), "-l", &path("out"), &capture]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let fast = std::fs::read_to_string(dir.path().join("out/fast.log")).unwrap();
    let count = |sid: &str| fast.matches(sid).count();
    assert_eq!([count("[1:1:0]"), count("[1:2:0]"), count("[1:3:0]")], [2, 1, 0], "{fast}");
}

#[test]
fn a_value_is_refused_and_the_keyword_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("odd.rules");
    std::fs::write(&file, "alert udp any any -> any any (udp.len_odd:3; sid:1;)\n").unwrap();
    let ran = gabion(&["rules", "check", &file.display().to_string()]);
    assert!(ran.code != 0 && (ran.out + &ran.err).contains("udp.len_odd"));
    let listed = gabion(&["suricata", "--list-keywords"]).out;
    assert!(listed.lines().any(|line| line == "- udp.len_odd"), "{listed}");
    let listed = gabion(&["suricata", "--list-keywords=udp.len_odd"]).out;
    assert!(listed.contains("datagrams of an odd length"), "{listed}");
}
