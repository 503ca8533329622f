//! Our reader compared with another one (the crate pcap-parser) over every capture of the corpus:
//! the same frames, lengths and times.

use std::path::Path;

use gabion_capture::{CaptureBytes, FrameRef, Source, list_recursive};
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

/// Time, wire length, link, data.
type Seen = (u64, u32, u16, Vec<u8>);

fn ours(bytes: &[u8]) -> Vec<Seen> {
    let mut source = Source::from_bytes(CaptureBytes::from_vec(bytes.to_vec())).unwrap();
    let (mut refs, mut seen): (Vec<FrameRef>, _) = (Vec::new(), Vec::new());
    while let Some(block) = source.next_block(100, &mut refs) {
        seen.extend(
            refs.drain(..)
                .map(|r| r.frame(&block.bytes))
                .map(|f| (f.ts_ns, f.wire_len, f.link, f.data.to_vec())),
        );
    }
    seen
}

/// The frames of the other reader; `None` if it does not accept the file.
fn theirs(bytes: &[u8]) -> Option<Vec<Seen>> {
    let mut reader = create_reader(1 << 22, std::io::Cursor::new(bytes.to_vec())).ok()?;
    let (mut seen, mut interfaces) = (Vec::new(), Vec::new());
    let (mut link, mut unit, mut snaplen) = (0_u16, 1000_u64, usize::MAX);
    loop {
        let consumed = match reader.next() {
            Ok((consumed, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(h) => {
                        unit = if h.is_nanosecond_precision() { 1 } else { 1000 };
                        link = h.network.0 as u16;
                        snaplen = if h.snaplen == 0 { usize::MAX } else { h.snaplen as usize };
                    }
                    PcapBlockOwned::Legacy(b) => {
                        let ns = u64::from(b.ts_sec) * 1_000_000_000;
                        let ns = ns + u64::from(b.ts_usec) * unit;
                        // The other reader does not cut to the file's snap length; libpcap does.
                        let data = b.data.get(..snaplen).unwrap_or(b.data);
                        seen.push((ns, b.origlen, link, data.to_vec()));
                    }
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
                    PcapBlockOwned::NG(Block::InterfaceDescription(i)) => {
                        interfaces.push((i.linktype.0 as u16, i.ts_resolution(), i.snaplen));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(p)) => {
                        let (link, per_second, _) = *interfaces.get(p.if_id as usize)?;
                        let ts = u128::from(p.ts_high) << 32 | u128::from(p.ts_low);
                        let ns = ts * 1_000_000_000 / u128::from(per_second?);
                        let data = p.data.get(..p.caplen as usize)?.to_vec();
                        seen.push((ns as u64, p.origlen, link, data));
                    }
                    PcapBlockOwned::NG(Block::SimplePacket(p)) => {
                        let (link, _, snaplen) = *interfaces.first()?;
                        let len = if snaplen == 0 { p.origlen } else { p.origlen.min(snaplen) };
                        let data = p.data.get(..len as usize)?.to_vec();
                        seen.push((0, p.origlen, link, data));
                    }
                    PcapBlockOwned::NG(_) => {}
                }
                consumed
            }
            Err(PcapError::Eof) => return Some(seen),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().ok()?;
                continue;
            }
            // For example the truncated end of a file.
            Err(_) => return Some(seen),
        };
        reader.consume(consumed);
    }
}

fn is_capture(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "pcap" || e == "pcapng" || e == "cap")
}

#[test]
fn two_readers_see_the_same_frames() {
    let Some(corpus) = gabion_corpus::find("two_readers_see_the_same_frames", "") else { return };
    let (mut files, mut frames, mut not_theirs) = (0, 0, Vec::new());
    for folder in ["captures", "suricata-verify"] {
        for path in list_recursive(&corpus.join(folder)).unwrap() {
            if !is_capture(&path) {
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let Some(theirs) = theirs(&bytes) else {
                not_theirs.push(path);
                continue;
            };
            // The other reader does not know the swapped lengths of versions before 2.4; libpcap
            // does.
            if path.ends_with("ndpi/fuzz-2021-10-13.pcap") {
                continue;
            }
            let ours = ours(&bytes);
            files += 1;
            frames += ours.len();
            assert_eq!(ours.len(), theirs.len(), "{}", path.display());
            for (n, (a, b)) in ours.iter().zip(&theirs).enumerate() {
                assert_eq!(a, b, "{}: frame {n}", path.display());
            }
        }
    }
    eprintln!("{files} files, {frames} frames equal; not accepted by the other: {not_theirs:?}");
    assert!(files > 1000);
}
