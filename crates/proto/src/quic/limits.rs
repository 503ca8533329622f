//! Limits of QUIC, each with its reason.

use gabion_record::limits;

limits! { "proto.quic";
    /// Handshake bytes of a side that are put together, as in Suricata 8.0.7.
    pub const CRYPTO_BYTES_MAX: usize = 65_534,
        Counts("handshake bytes, as event `crypto_frag_too_long`");

    /// Pieces of handshake bytes after a hole that a side may have: a hello of the largest size in
    /// pieces of 64 bytes, and browsers send a few.
    pub const CRYPTO_PIECES_MAX: usize = 1024,
        Counts("handshake bytes, as event `crypto_frag_too_long`");

    /// Packets of a flow that may fail to open, after which others count as failed without being tried:
    /// to open one is the most expensive step, and a sender needs no key to ask for it.
    pub const FAILED_DECRYPTIONS_MAX: usize = 64,
        Counts("packets of a flow, as event `failed_decrypt`");

    /// Extensions of a hello that records list: clients send some twenty.
    pub const EXTENSIONS_MAX: usize = 1024,
        Loses("extensions of a hello");

    /// Values of an extension that records list: clients send some twenty.
    pub const VALUES_MAX: usize = 1024,
        Loses("values of an extension");

    /// Hellos of a packet of Google's versions that are kept: clients send one.
    pub const GOOGLE_HELLOS_MAX: usize = 16,
        Loses("hellos of a packet");
}
