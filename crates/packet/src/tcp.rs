//! TCP headers and options (RFC 9293, RFC 7323, RFC 2018, RFC 7413).

use crate::counters::Counter;
use crate::decode::Run;
use crate::decoded::{Decoded, Flags};
use crate::layer::Layer;
use crate::transport::{Tcp, TcpOptions, TransportHeader};
use gabion_record::DecoderEvent;
use gabion_record::IpProto;

/// Bytes of a header without options.
const MIN_LEN: usize = 20;

/// Mark of fast open in the experimental options (RFC 6994 as used by draft-ietf-tcpm-fastopen).
const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];

#[inline]
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    run.counters.count(Counter::Tcp);
    // Suricata calls it TCP from here on, even if the header is broken.
    p.proto = IpProto::TCP;
    let Some(header) = layer.data.first_chunk::<MIN_LEN>() else {
        p.invalid(DecoderEvent::TcpPacketTooSmall);
        return;
    };
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len > layer.len() {
        p.invalid(DecoderEvent::TcpHeaderTooSmall);
        return;
    }
    if header_len < MIN_LEN {
        p.invalid(DecoderEvent::TcpInvalidOptLen);
        return;
    }
    let inside = layer.after(header_len);
    p.sp = u16::from_be_bytes([header[0], header[1]]);
    p.dp = u16::from_be_bytes([header[2], header[3]]);
    p.l4 = layer.at;
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    p.flags.set(Flags::WANTS_FLOW);
    let mut tcp = Tcp {
        seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        window: u16::from_be_bytes([header[14], header[15]]),
        checksum: u16::from_be_bytes([header[16], header[17]]),
        urgent: u16::from_be_bytes([header[18], header[19]]),
        flags: header[13],
        reserved: header[12] & 15,
        header_len: header_len as u8,
        options: TcpOptions::default(),
    };
    if header_len > MIN_LEN
        && let Some(options) = layer.data.get(MIN_LEN..header_len)
    {
        decode_options(p, &mut tcp.options, options);
    }
    p.transport = TransportHeader::Tcp(tcp);
}

/// Walks the options. An impossible length ends the walk and makes the packet invalid; an option
/// whose length is wrong for its kind only is skipped.
#[inline]
fn decode_options(p: &mut Decoded, out: &mut TcpOptions, options: &[u8]) {
    // Nearly every segment of an established connection carries these: NOP, NOP, timestamps.
    if let [1, 1, 8, 10, v0, v1, v2, v3, e0, e1, e2, e3] = *options {
        out.present = TcpOptions::TIMESTAMP;
        out.ts_value = u32::from_be_bytes([v0, v1, v2, v3]);
        out.ts_echo = u32::from_be_bytes([e0, e1, e2, e3]);
        return;
    }
    let mut at = 0usize;
    while let Some(&kind) = options.get(at) {
        match kind {
            0 => return,
            1 => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let Some(&len) = options.get(at + 1) else {
            return;
        };
        let len = usize::from(len);
        let Some(option) = options.get(at..at + len).filter(|_| len >= 2) else {
            p.invalid(DecoderEvent::TcpOptInvalidLen);
            return;
        };
        decode_option(p, out, kind, option, at + MIN_LEN);
        at += len;
    }
}

fn decode_option(p: &mut Decoded, out: &mut TcpOptions, kind: u8, option: &[u8], at: usize) {
    let (bit, good) = match (kind, option) {
        (2, _) => (TcpOptions::MSS, option.len() == 4),
        (3, _) => (TcpOptions::WINDOW_SCALE, option.len() == 3),
        (4, _) => (TcpOptions::SACK_OK, option.len() == 2),
        // Zero blocks are useless but common.
        (5, [_, _]) => return,
        (5, _) => (TcpOptions::SACK, matches!(option.len(), 10 | 18 | 26 | 34)),
        (8, _) => (TcpOptions::TIMESTAMP, option.len() == 10),
        (19, _) => (TcpOptions::MD5, option.len() == 18),
        (29, _) => (TcpOptions::AUTH, option.len() >= 4),
        (34, _) => {
            let len = option.len();
            (TcpOptions::FAST_OPEN, len == 2 || ((6..=18).contains(&len) && len.is_multiple_of(2)))
        }
        (253 | 254, [_, _, magic @ ..]) => {
            let good = matches!(option.len(), 4 | 12);
            if good && !magic.starts_with(&FAST_OPEN_MAGIC) {
                return;
            }
            (TcpOptions::FAST_OPEN, good)
        }
        _ => return,
    };
    if !good {
        // A broken signature makes the packet invalid; other options are only left out.
        if bit == TcpOptions::MD5 || bit == TcpOptions::AUTH {
            p.invalid(DecoderEvent::TcpOptInvalidLen);
        } else {
            p.event(DecoderEvent::TcpOptInvalidLen);
        }
        return;
    }
    if out.has(bit) {
        // Signatures may repeat: Suricata only records that they are present.
        if bit != TcpOptions::MD5 && bit != TcpOptions::AUTH {
            p.event(DecoderEvent::TcpOptDuplicate);
        }
        return;
    }
    out.present |= bit;
    match *option {
        [2, _, a, b] => out.mss = u16::from_be_bytes([a, b]),
        [3, _, shift] => out.window_scale = if shift <= 14 { shift } else { 0 },
        [5, len, ..] => {
            out.sack_blocks = (len - 2) / 8;
            out.sack_at = at as u8 + 2;
        }
        [8, _, a, b, c, d, e, f, g, h] => {
            out.ts_value = u32::from_be_bytes([a, b, c, d]);
            out.ts_echo = u32::from_be_bytes([e, f, g, h]);
        }
        [34, len, ..] => {
            out.fast_open_len = len - 2;
            out.fast_open_at = at as u8 + 2;
        }
        [253 | 254, len, ..] => {
            out.fast_open_len = len - 4;
            out.fast_open_at = at as u8 + 4;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, events};

    fn with(options: &[u8]) -> Decoded {
        build::raw(&build::ipv4(6, &[], &build::tcp(options, b"data")))
    }

    #[test]
    fn fields_of_the_header_are_read() {
        let packet = build::ipv4(6, &[], &build::tcp(&[], b"data"));
        let p = build::raw(&packet);
        let tcp = p.transport.tcp().expect("tcp");
        assert_eq!((p.sp, p.dp, tcp.seq, tcp.ack), (1000, 80, 1, 2));
        assert_eq!((tcp.flags, tcp.window, tcp.header_len), (Tcp::SYN, 0x2000, 20));
        assert_eq!(p.payload(&packet), b"data");
        assert_eq!(p.transport_header(&packet).len(), 20);
    }

    #[test]
    fn broken_headers_raise_one_event() {
        let good = build::tcp(&[], b"");
        let doff = |words: u8| {
            let mut segment = good.clone();
            segment[12] = words << 4;
            segment
        };
        let cases = [
            (good[..19].to_vec(), "tcp.pkt_too_small"),
            (doff(6), "tcp.hlen_too_small"),
            (doff(4), "tcp.invalid_optlen"),
        ];
        for (segment, event) in cases {
            let p = build::raw(&build::ipv4(6, &[], &segment));
            assert_eq!(events(&p), [event]);
            assert!(p.flags.has(Flags::INVALID) && !p.transport.is_some());
            assert!(!p.flags.has(Flags::WANTS_FLOW));
        }
    }

    #[test]
    fn options_are_read() {
        let p = with(&[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7]);
        let options = p.transport.tcp().expect("tcp").options;
        assert_eq!((options.mss, options.window_scale), (1460, 7));
        assert_eq!((options.ts_value, options.ts_echo), (1, 2));
        assert!(options.has(TcpOptions::SACK_OK) && p.events.is_empty());

        let p = with(&[1, 1, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4]);
        let options = p.transport.tcp().expect("tcp").options;
        assert_eq!((options.ts_value, options.ts_echo), (3, 4));

        let p = with(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        let options = p.transport.tcp().expect("tcp").options;
        assert_eq!((options.sack_blocks, options.sack_at), (1, 24));

        let p = with(&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1]);
        let options = p.transport.tcp().expect("tcp").options;
        assert_eq!((options.fast_open_len, options.fast_open_at), (8, 22));

        let p = with(&[254, 4, 0xf9, 0x89]);
        assert!(p.transport.tcp().expect("tcp").options.has(TcpOptions::FAST_OPEN));

        // A shift above 14 counts as none.
        let p = with(&[3, 3, 15, 0]);
        assert_eq!(p.transport.tcp().expect("tcp").options.window_scale, 0);
    }

    /// As in Suricata, an option whose length is wrong for its kind is skipped; an impossible
    /// length ends the walk and makes the packet invalid, but its header is still used.
    #[test]
    fn odd_options_raise_events() {
        let len = "tcp.opt_invalid_len";
        let dup = "tcp.opt_duplicate";
        let cases: [(&[u8], &[&str], bool); 13] = [
            (&[2, 3, 0, 0], &[len], false),
            (&[3, 4, 0, 0], &[len], false),
            (&[4, 4, 0, 0], &[len], false),
            (&[8, 4, 0, 0], &[len], false),
            (&[5, 2, 0, 0], &[], false),
            (&[5, 4, 0, 0], &[len], false),
            (&[34, 4, 0, 0], &[len], false),
            (&[253, 3, 0, 0], &[len], false),
            (&[19, 4, 0, 0], &[len], true),
            (&[29, 3, 0x61, 0], &[len], true),
            (&[2, 5, 0, 0], &[len], true),
            (&[2, 1, 0, 0], &[len], true),
            (&[2, 4, 1, 1, 2, 4, 1, 2], &[dup], false),
        ];
        for (options, expected, is_invalid) in cases {
            let p = with(options);
            assert_eq!(events(&p), expected, "{options:?}");
            assert_eq!(p.flags.has(Flags::INVALID), is_invalid, "{options:?}");
            assert!(p.transport.tcp().is_some());
        }
        let p = with(&[2, 4, 1, 1, 2, 4, 1, 2]);
        assert_eq!(p.transport.tcp().expect("tcp").options.mss, 257, "the first one counts");
    }
}
