//! Decoder and stream events that rules may ask for (`decode-event`, `stream-event`), by their names. A misspelt name
//! is refused when rules are loaded. Which names there are is what Suricata 8.0.7 accepts.

use gabion_record::{DecoderEvent, StreamEvent};

/// An event of earlier versions that Suricata refuses with words of its own.
pub(crate) const RETIRED: DecoderEvent = DecoderEvent::UdpHeaderInvalid;

/// The event of that name, [`RETIRED`] too.
pub(crate) fn decoder_event(name: &str) -> Option<DecoderEvent> {
    DecoderEvent::from_name(&name.to_ascii_lowercase())
}

/// The same for stream events. Letters of either case are one to Suricata 8.0.7.
pub(crate) fn stream_event(name: &str) -> Option<StreamEvent> {
    StreamEvent::from_name(&name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_by_the_names_that_suricata_accepts() {
        assert_eq!(decoder_event("ipv4.trunc_pkt"), Some(DecoderEvent::Ipv4Truncated));
        assert_eq!(decoder_event("udp.hlen_invalid"), Some(RETIRED));
        assert_eq!(stream_event("3whs_syn_flood"), Some(StreamEvent::HsSynFlood));
        assert_eq!(stream_event("3WHS_syn_flood"), Some(StreamEvent::HsSynFlood));
        assert_eq!(decoder_event("IPv4.trunc_PKT"), Some(DecoderEvent::Ipv4Truncated));
        assert_eq!(stream_event("est_ack_zwp_data"), Some(StreamEvent::EstAckZwpData));
        assert_eq!(stream_event("nope"), None);
    }
}
