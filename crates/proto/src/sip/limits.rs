//! Limits of the SIP parser.

use gabion_record::limits;

limits! { "proto.sip";
    /// Bytes of start line and headers that are waited for on a stream; a longer head ends it. A
    /// datagram can't be longer.
    pub const HEAD_BYTES_MAX: usize = 64 * 1024,
        Loses("a stream whose head is longer");

    /// Bytes of a body that are read; what follows is passed over. A megabyte is ten times what a
    /// description of any conference takes.
    pub const BODY_BYTES_MAX: usize = 256 * 1024,
        Loses("the end of a body");

    /// Values kept of the headers that rules ask for: as many as the largest head can carry.
    pub const HEADERS_KEPT_MAX: usize = 16 * 1024,
        Spares("the largest head holds no more");

    /// Lines of one kind kept of a description or of one of its media: as many as the largest body can
    /// carry.
    pub const LINES_KEPT_MAX: usize = 128 * 1024,
        Spares("the largest body holds no more");

    /// Media kept of a description: each takes fifty times the bytes that the shortest has on the wire,
    /// so that a description stays below a megabyte.
    pub const MEDIA_KEPT_MAX: usize = 4 * 1024,
        Loses("media of a description");

    /// Live transactions of a flow; the oldest goes when there are more. The smallest message takes 18
    /// bytes, and the engine frees transactions only after the piece of input they came with.
    pub const TXS_PER_FLOW_MAX: usize = 4096,
        Loses("the oldest transaction of a flow");
}
