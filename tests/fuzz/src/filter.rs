//! Capture filters: compiles any text as a filter and applies it to any frames.

use crate::script::{Script, put_text};
use crate::seeds::Seeds;
use gabion_capture::filter::Filter;

/// LINKTYPE numbers of the frames.
const LINKS: &[u16] = &[1, 101, 113, 0, 276, 12, 147];

/// Compiles the text and applies it to each frame. An invalid filter is refused with an offset in
/// the text; brackets do not change the result, and neither does a double negation.
pub fn compile(data: &[u8]) {
    let mut script = Script::new(data);
    let text = String::from_utf8_lossy(script.text()).into_owned();
    let filter = match Filter::compile(&text) {
        Ok(filter) => filter,
        Err(fault) => {
            let said = fault.to_string();
            assert!(!said.is_empty() && !said.contains('\n'), "one line: {said:?}");
            return;
        }
    };
    // The depth is limited, so two more brackets may be refused.
    let same = Filter::compile(&format!("({text})")).ok().filter(|_| !text.trim().is_empty());
    let twice = Filter::compile(&format!("not (not ({text}))")).ok();
    while !script.is_done() {
        let link = LINKS.get(usize::from(script.u8()) % LINKS.len()).copied().unwrap_or(1);
        let frame = script.text();
        let wire_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let answer = filter.matches(link, wire_len, frame);
        for other in [&same, &twice].into_iter().flatten() {
            assert_eq!(answer, other.matches(link, wire_len, frame), "{text:?}");
        }
    }
}

/// Filters of each kind with a few frames.
pub fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    const TEXTS: &[&str] = &[
        "tcp port 80",
        "not arp and (host 10.20.0.10 or net 192.168.0.0/16)",
        "ip6 and udp dst port 53",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 10.0.0.0/8",
        "ether host 02:00:00:00:20:01 || ether broadcast || multicast",
        "vlan 12 and tcp portrange 8000-9000",
        "ip[0] & 0xf != 5 or ip6[6] = 58",
        "(ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2) != 0",
        "icmp[icmptype] = icmp-echo and len > 100",
        "ip proto 47 or ip6 proto 17 or proto sctp or ether proto 0x88cc",
        "less 64 or greater 1500",
        "src host fd00:20::10 and dst port domain",
        "net 10.20 mask 255.255.0.0",
        "vlan and vlan 5 and udp",
        "ether[0] & 1 = 0 and ip[16] >= 224",
    ];
    let mut frames = seeds.frames.iter().flat_map(|f| f.iter().step_by(29)).cycle();
    let mut all = Vec::new();
    for text in TEXTS.iter().cycle().take(TEXTS.len() * 12) {
        let mut out = Vec::new();
        put_text(&mut out, text.as_bytes());
        for frame in frames.by_ref().take(4) {
            let Some(place) = LINKS.iter().position(|link| *link == frame.link) else { continue };
            if out.len() + frame.data.len() < 8_000 {
                out.push(u8::try_from(place).unwrap_or(0));
                put_text(&mut out, &frame.data);
            }
        }
        all.push(out);
    }
    all
}
