//! A TCP packet in the form that the session tracker takes.

use crate::view::PacketView;
use gabion_flow::{TcpOptions as SegmentOptions, TcpSegment};
use gabion_packet::{TcpOptions, checksum};

/// A TCP packet in the tracker's form.
pub(crate) fn tcp_segment<'a>(view: &PacketView<'a>, checksums: bool) -> Option<TcpSegment<'a>> {
    let d = view.headers;
    let t = d.transport.tcp()?;
    let header = d.transport_header(view.frame);
    let sack = if t.options.has(TcpOptions::SACK) {
        let at = usize::from(t.options.sack_at);
        header.get(at..at + 8 * usize::from(t.options.sack_blocks)).unwrap_or(&[])
    } else {
        &[]
    };
    Some(TcpSegment {
        seq: t.seq,
        ack: t.ack,
        flags: t.flags,
        window: t.window,
        urgent_pointer: t.urgent,
        options: SegmentOptions {
            ts_val: t.options.has(TcpOptions::TIMESTAMP).then_some(t.options.ts_value),
            ts_ecr: t.options.ts_echo,
            wscale: t.options.has(TcpOptions::WINDOW_SCALE).then_some(t.options.window_scale),
            sack_ok: t.options.has(TcpOptions::SACK_OK),
            sack,
            fast_open: t.options.has(TcpOptions::FAST_OPEN),
            signed: t.options.has(TcpOptions::MD5) || t.options.has(TcpOptions::AUTH),
        },
        payload: view.payload,
        ts_ns: view.ts_ns,
        checksum_ok: !checksums
            || view.ignores_checksums
            || checksum::tcp_ok(d, view.frame) != Some(false),
        src: d.src,
        dst: d.dst,
        ip_version: d.ip_version(),
        number: view.number,
    })
}
