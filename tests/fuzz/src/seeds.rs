//! Real inputs to begin with: the demonstration's capture, and captures of the corpus if it is
//! present.

use gabion_capture::{CaptureBytes, Source};
use gabion_packet::{DecodeConfig, DecodeCounters, Link, PacketSet, TransportHeader};
use gabion_record::{Addr, Direction};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Longer captures are not used as seeds.
const CAPTURE_BYTES_MAX: u64 = 60_000;
/// Most captures to use.
const CAPTURES_MAX: usize = 1_500;

/// A frame of a capture.
#[derive(Clone, Debug)]
pub struct Frame {
    /// LINKTYPE.
    pub link: u16,
    /// Event time, nanoseconds.
    pub ts_ns: u64,
    /// The bytes.
    pub data: Vec<u8>,
}

/// The payloads of a connection in the order of packets; the end that sent first is the client.
#[derive(Clone, Debug, Default)]
pub struct Talk {
    /// Whether the transport is TCP (else UDP).
    pub is_tcp: bool,
    /// The client's and the server's port.
    pub ports: [u16; 2],
    /// Payloads.
    pub parts: Vec<(Direction, Vec<u8>)>,
}

/// Captures and their content.
pub struct Seeds {
    captures: Vec<Vec<u8>>,
    /// Frames of each capture.
    pub frames: Vec<Vec<Frame>>,
    /// Connections of all captures.
    pub talks: Vec<Talk>,
    /// Folder of the corpus.
    pub corpus: Option<PathBuf>,
}

impl Seeds {
    /// Seeds from the demonstration and from a corpus.
    #[must_use]
    pub fn new(corpus: Option<&Path>) -> Seeds {
        let mut seeds =
            Seeds { captures: Vec::new(), frames: Vec::new(), talks: Vec::new(), corpus: None };
        seeds.add(&repository().join("demo/demo.pcap"));
        if let Some(corpus) = corpus.filter(|folder| folder.is_dir()) {
            let mut found = Vec::new();
            for part in ["suricata-verify/tests", "suricata-verify/pcaps", "captures"] {
                collect(&corpus.join(part), &mut found);
            }
            found.sort();
            found.iter().take(CAPTURES_MAX).for_each(|path| seeds.add(path));
            seeds.corpus = Some(corpus.to_path_buf());
        }
        seeds
    }

    fn add(&mut self, path: &Path) {
        let Ok(bytes) = std::fs::read(path) else { return };
        let mut frames = Vec::new();
        if let Ok(mut source) = Source::from_bytes(CaptureBytes::from_vec(bytes.clone())) {
            let mut refs = Vec::new();
            while let Some(block) = source.next_block(256, &mut refs) {
                for r in refs.drain(..) {
                    let f = r.frame(&block.bytes);
                    frames.push(Frame { link: f.link, ts_ns: f.ts_ns, data: f.data.to_vec() });
                }
            }
        }
        self.talks.extend(talks(&frames));
        self.frames.push(frames);
        self.captures.push(bytes);
    }

    /// The captures' bytes. The demonstration is longer than the others, and only its start is
    /// used.
    #[must_use]
    pub fn captures(&self) -> Vec<Vec<u8>> {
        let cut = |c: &Vec<u8>| c.get(..CAPTURE_BYTES_MAX as usize).unwrap_or(c).to_vec();
        self.captures.iter().map(cut).collect()
    }
}

/// The repository's root.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_small = path.metadata().is_ok_and(|m| m.len() <= CAPTURE_BYTES_MAX);
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, found);
        } else if is_small && ["pcap", "pcapng", "cap", "trace"].contains(&ending) {
            found.push(path);
        }
    }
}

/// Connections over TCP and UDP. Segments are used in the order of arrival, with overlaps: seeds
/// need not be exact.
fn talks(frames: &[Frame]) -> Vec<Talk> {
    type End = (Addr, u16);
    let mut order: Vec<Talk> = Vec::new();
    let mut index: HashMap<(End, End, bool), usize> = HashMap::new();
    let (mut set, mut counters) = (PacketSet::new(), DecodeCounters::default());
    for frame in frames {
        let Some(link) = Link::from_linktype(frame.link.into()) else { continue };
        gabion_packet::decode(&mut set, &mut counters, &DecodeConfig::DEFAULT, link, &frame.data);
        for p in set.iter() {
            let payload = p.payload(&frame.data);
            let is_tcp = p.transport.tcp().is_some();
            if payload.is_empty() || !(is_tcp || matches!(p.transport, TransportHeader::Udp(_))) {
                continue;
            }
            let (from, to) = ((p.src, p.sp), (p.dst, p.dp));
            let (at, direction) = match index.get(&(to, from, is_tcp)) {
                Some(at) => (*at, Direction::ToClient),
                None => {
                    let next = order.len();
                    let at = *index.entry((from, to, is_tcp)).or_insert(next);
                    if at == next {
                        order.push(Talk { is_tcp, ports: [from.1, to.1], parts: Vec::new() });
                    }
                    (at, Direction::ToServer)
                }
            };
            if let Some(talk) = order.get_mut(at) {
                talk.parts.push((direction, payload.to_vec()));
            }
        }
    }
    order
}
