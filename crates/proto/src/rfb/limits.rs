//! Limits of RFB, each with its reason.

use gabion_record::limits;

limits! { "proto.rfb";
    /// Bytes kept of a desktop's name or of the reason of a failure (Suricata's default, `max-string-length`).
    pub const TEXT_BYTES_MAX: usize = 4096,
        Counts("the rest of a text, as event `too_long_string`");
}
