//! Decoding any bytes ends, stays within them and is repeatable: frames of the corpus cut at every
//! length, with bytes changed, and read as every kind of link.

use gabion_packet::{DecodeCounters, Link, PacketSet, fuzz_entry};

const LINKS: [Link; 10] = [
    Link::Ethernet,
    Link::Null,
    Link::Raw,
    Link::Ipv4,
    Link::Ipv6,
    Link::Ppp,
    Link::Pppoe,
    Link::CiscoHdlc,
    Link::LinuxCooked,
    Link::LinuxCooked2,
];

fn decode_all(set: &mut PacketSet, counters: &mut DecodeCounters, link: Link, frame: &[u8]) {
    fuzz_entry(set, counters, link, frame).unwrap();
}

/// xorshift64: the same bytes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_bytes_are_decoded_to_an_end() {
    let (mut set, mut counters) = (PacketSet::new(), DecodeCounters::new());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let len = (random.next() % 160) as usize;
        let mut frame: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        // Bytes that look like IP reach more code than noise.
        if let Some(first) = frame.first_mut() {
            *first = if random.next() & 1 == 0 { 0x45 } else { 0x60 };
        }
        for link in LINKS {
            decode_all(&mut set, &mut counters, link, &frame);
        }
    }
}

#[test]
fn cut_and_changed_frames_are_decoded_to_an_end() {
    let test = "cut_and_changed_frames_are_decoded_to_an_end";
    let Some(corpus) = gabion_corpus::find(test, "") else { return };
    let (mut set, mut counters) = (PacketSet::new(), DecodeCounters::new());
    let mut random = Random(1);
    let files = gabion_capture::list_recursive(&corpus.join("captures")).expect("captures");
    for path in files {
        let file = std::fs::File::open(&path).unwrap();
        let Ok(mut source) = gabion_capture::Source::from_file(file) else {
            continue;
        };
        let mut refs = Vec::new();
        // The first frames of each capture: the corpus has many captures of few kinds each.
        let Some(block) = source.next_block(3, &mut refs) else {
            continue;
        };
        for frame in &refs {
            let frame = frame.frame(&block.bytes);
            let link = Link::from_linktype(u32::from(frame.link)).unwrap_or(Link::Ethernet);
            let data = frame.data.get(..frame.data.len().min(1600)).unwrap_or(&[]);
            for len in (0..data.len().min(200)).chain([data.len()]) {
                decode_all(&mut set, &mut counters, link, &data[..len]);
            }
            let mut changed = data.to_vec();
            for _ in 0..60.min(changed.len()) {
                let at = random.next() as usize % changed.len().min(120);
                changed[at] = random.next() as u8;
                decode_all(&mut set, &mut counters, link, &changed);
            }
            for link in LINKS {
                decode_all(&mut set, &mut counters, link, data);
            }
        }
    }
}

/// A set that held another frame's packets gives the same result as a new one.
#[test]
fn a_used_set_keeps_nothing() {
    let test = "a_used_set_keeps_nothing";
    let Some(corpus) = gabion_corpus::find(test, "") else { return };
    let mut used = PacketSet::new();
    let mut counters = DecodeCounters::new();
    for path in gabion_capture::list_recursive(&corpus.join("captures/zeek")).expect("captures") {
        let file = std::fs::File::open(&path).unwrap();
        let Ok(mut source) = gabion_capture::Source::from_file(file) else {
            continue;
        };
        let mut refs = Vec::new();
        let Some(block) = source.next_block(20, &mut refs) else {
            continue;
        };
        for frame in &refs {
            let frame = frame.frame(&block.bytes);
            let Some(link) = Link::from_linktype(u32::from(frame.link)) else {
                continue;
            };
            let mut new = PacketSet::new();
            decode_all(&mut used, &mut counters, link, frame.data);
            decode_all(&mut new, &mut counters, link, frame.data);
            assert_eq!(used.count(), new.count());
            for (mine, theirs) in used.iter().zip(new.iter()) {
                assert_eq!(mine.events.as_slice(), theirs.events.as_slice());
                let (mut mine, mut theirs) = (*mine, *theirs);
                mine.events.clear();
                theirs.events = mine.events;
                assert_eq!(format!("{mine:?}"), format!("{theirs:?}"));
            }
        }
    }
}
