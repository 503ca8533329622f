//! Tests of the defragmenter: headers of the datagrams, timeouts, limits.

use gabion_flow::{DefragConfig, Defragmenter, ExceptionTrigger, FragEvent, Fragment};
use gabion_record::budget::Budget;
use gabion_record::{Addr, IpProto};

const SECOND: u64 = 1_000_000_000;

/// An IPv4 header without options as the first fragment carries it (more fragments set).
const HEADER: [u8; 20] = [0x45, 0, 0, 0, 0, 7, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

fn fragment(offset: u32, more: bool, payload: &[u8], ts_ns: u64) -> Fragment<'_> {
    Fragment {
        src: Addr::v4([10, 0, 0, 1]),
        dst: Addr::v4([10, 0, 0, 2]),
        ip_version: 4,
        proto: IpProto::UDP,
        id: 7,
        vlan: [0; 3],
        recursion: 0,
        offset,
        more,
        header: &HEADER,
        next_header_at: 0,
        payload,
        ts_ns,
        number: 1,
    }
}

fn defragmenter(cfg: DefragConfig, memcap: u64) -> Defragmenter {
    Defragmenter::new(cfg, Budget::standalone("defrag", memcap))
}

#[test]
fn an_ipv4_datagram_has_lengths_and_checksum_of_its_own() {
    let mut d = defragmenter(DefragConfig::default(), 1 << 20);
    assert!(!d.fragment(&fragment(16, false, b"tail", 0)).is_complete);
    let out = d.fragment(&fragment(0, true, b"0123456789abcdef", 0));
    assert!(out.is_complete && out.event.is_none());
    let datagram = d.datagram();
    assert_eq!(&datagram[20..], b"0123456789abcdeftail");
    assert_eq!(u16::from_be_bytes([datagram[2], datagram[3]]), 40);
    assert_eq!(datagram[6..8], [0, 0]);
    let sum: u32 =
        datagram[..20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "RFC 1071: the sum over the header is -0");
    assert_eq!(d.counters().ipv4_reassembled, 1);
    assert_eq!(d.counters().memuse, 0);
}

#[test]
fn an_ipv6_datagram_names_what_follows() {
    let mut header = vec![0x60, 0, 0, 0, 0, 0, 44, 64];
    header.resize(40, 1);
    let part = |offset, more, payload| Fragment {
        ip_version: 6,
        proto: IpProto::ICMPV6,
        header: &header,
        next_header_at: 6,
        ..fragment(offset, more, payload, 0)
    };
    let mut d = defragmenter(DefragConfig::default(), 1 << 20);
    d.fragment(&part(0, true, b"01234567"));
    assert!(d.fragment(&part(8, false, b"89")).is_complete);
    assert_eq!(d.datagram()[4..7], [0, 10, 58]);
    assert_eq!(&d.datagram()[40..], b"0123456789");
}

#[test]
fn fragments_of_different_datagrams_are_kept_apart() {
    let base = fragment(8, false, b"tail", 0);
    let others = [
        Fragment { id: 8, ..base },
        Fragment { proto: IpProto::TCP, ..base },
        Fragment { vlan: [1, 0, 0], ..base },
        Fragment { recursion: 1, ..base },
        Fragment { src: Addr::v4([10, 0, 0, 3]), ..base },
    ];
    for other in others {
        let mut d = defragmenter(DefragConfig::default(), 1 << 20);
        d.fragment(&fragment(0, true, b"01234567", 0));
        assert!(!d.fragment(&other).is_complete);
        assert!(d.fragment(&base).is_complete);
    }
}

#[test]
fn an_incomplete_datagram_is_dropped_after_its_timeout() {
    let mut d = defragmenter(DefragConfig { timeout: 60, ..DefragConfig::default() }, 1 << 20);
    d.fragment(&fragment(0, true, b"01234567", SECOND));
    assert!(!d.fragment(&fragment(8, false, b"tail", 62 * SECOND)).is_complete);
    assert_eq!(d.counters().ipv4_timeouts, 1);
    let late = d.fragment(&fragment(0, true, b"01234567", 100 * SECOND));
    assert!(late.is_complete, "within the timeout of the second try");
}

#[test]
fn limits_are_kept_and_reported() {
    let too_large = fragment(65_528, false, b"0123456789", 0);
    let mut d = defragmenter(DefragConfig::default(), 1 << 20);
    assert_eq!(d.fragment(&too_large).event, Some(FragEvent::TooLarge));

    let mut d = defragmenter(DefragConfig::default(), 1_000);
    let full = [0_u8; 800];
    let out = d.fragment(&fragment(0, true, &full, 0));
    assert_eq!(out.event, Some(FragEvent::Ignored));
    assert_eq!(out.exception, Some(ExceptionTrigger::DefragMemcap));

    let cfg = DefragConfig { trackers: 2, ..DefragConfig::default() };
    let mut d = defragmenter(cfg, 1 << 20);
    for id in 0..3 {
        let out = d.fragment(&Fragment { id, ..fragment(0, true, b"01234567", 0) });
        assert_eq!(out.exception.is_some(), id == 2);
    }
    assert_eq!(d.counters().max_trackers_reached, 1);
    // Trackers past their timeout are evicted for new ones.
    let later = Fragment { id: 9, ..fragment(0, true, b"01234567", 120 * SECOND) };
    assert!(d.fragment(&later).exception.is_none());
}

#[test]
fn the_simulated_full_table_refuses_one_packet() {
    let cfg = DefragConfig { simulate_memcap_at: 2, ..DefragConfig::default() };
    let mut d = defragmenter(cfg, 1 << 20);
    for number in 1..4 {
        let out = d.fragment(&Fragment { number, ..fragment(0, true, b"01234567", 0) });
        assert_eq!(out.exception, (number == 2).then_some(ExceptionTrigger::DefragMemcap));
    }
}
