//! The app-layer frames of our tables against those that Suricata lists.

use gabion_corpus::read_text;
use gabion_record::applayer::Transport;
use std::collections::BTreeSet;

/// App-layer frames that Suricata 8.0.7 lists and our tables lack. The list may only become shorter.
const MISSING: &[&str] = &[];

/// Protocols that our tables have frames of and the list has not: it was printed with ENIP off, and a
/// frame of DCE/RPC is found over UDP, too, where Suricata lists TCP.
const NOT_LISTED: &[&str] = &["tcp: enip.", "udp: enip.", "udp: dcerpc."];

#[test]
fn frames_are_those_of_the_list() {
    let path = "suricata-verify/peer/list-app-layer-frames.txt";
    let Some(text) = read_text("frames_are_those_of_the_list", path) else { return };
    let listed: BTreeSet<String> =
        text.lines().filter(|line| line.contains("p: ")).map(str::to_string).collect();
    assert!(listed.len() > 50, "{listed:?}");
    let mut ours = BTreeSet::new();
    for protocol in gabion_proto::registry::registry() {
        let table = &protocol.table;
        for transport in table.transports {
            let (transport, stream) = match transport {
                Transport::Tcp => ("tcp", Some("stream")),
                Transport::Udp => ("udp", None),
            };
            let stream = stream.filter(|_| !table.frames.is_empty());
            for frame in stream.iter().chain(table.frames) {
                ours.insert(format!("{transport}: {}.{frame}", table.name));
            }
        }
    }
    let missing: Vec<&str> = listed.difference(&ours).map(String::as_str).collect();
    assert_eq!(missing, MISSING, "listed by Suricata and not ours");
    let is_known = |frame: &&String| NOT_LISTED.iter().any(|start| frame.starts_with(start));
    let more: Vec<_> = ours.difference(&listed).filter(|frame| !is_known(frame)).collect();
    assert!(more.is_empty(), "ours and not listed by Suricata: {more:?}");
}
