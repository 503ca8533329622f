//! Limits of the SMTP and MIME parsers.

use gabion_record::limits;

limits! { "proto.smtp";
    /// Bytes of a command, a reply or a header line; what is longer is cut and raises `truncated_line`
    /// (Suricata's figure; RFC 5321 allows 512, RFC 5322 998). Body lines are not cut but taken in
    /// pieces of this size.
    pub const LINE_BYTES_MAX: usize = 4096,
        Counts("the end of a line, as event `truncated_line`");

    /// Live transactions of a flow; the oldest goes when there are more. A segment of pipelined
    /// `RSET` lines can start some hundred before the engine frees any.
    pub const TXS_PER_FLOW_MAX: usize = 1024,
        Loses("the oldest transaction of a flow");

    /// Commands that wait for their replies: the range of 16 bits, as Suricata has it; servers answer
    /// long before.
    pub const COMMANDS_WAITING_MAX: usize = 65_535,
        Loses("replies of further commands");

    /// Recipients kept of a transaction. Suricata sets no bound of its own (8.0.7 keeps 5,000 of 5,000);
    /// what a flow holds is taken from the budget of the application layer.
    pub const RECIPIENTS_MAX: usize = 65_536,
        Loses("recipients");

    /// Header fields kept of a message, and of each of its parts while it is read; what a flow holds is
    /// taken from the budget of the application layer.
    pub const HEADERS_MAX: usize = 65_536,
        Loses("header fields of a message");

    /// Bytes of a header value that folded lines may add up to. The configured depth bounds each line
    /// only, as in Suricata.
    pub const HEADER_VALUE_BYTES_MAX: usize = 64 * 1024,
        Loses("the end of a folded header value");

    /// Bytes of a header name from which on it raises an event (Suricata's figure).
    pub const HEADER_NAME_BYTES_MAX: usize = 75,
        Counts("event `mime_long_header_name`; nothing is cut");

    /// Bytes of a file name kept (Suricata's figure).
    pub const FILE_NAME_BYTES_MAX: usize = 255,
        Counts("the end of a file name, as event `mime_long_filename`");

    /// Bytes of a boundary kept (Suricata's figure; RFC 2046 allows 70).
    pub const BOUNDARY_BYTES_MAX: usize = 254,
        Counts("the end of a boundary, as event `mime_long_boundary`");

    /// Boundaries that may be open at a time: nesting of multiparts. Deeper parts are read as text of
    /// the innermost.
    pub const NESTING_MAX: usize = 256,
        Loses("multiparts inside of others");

    /// Parameters of a header value that are read (`filename*0` to `filename*N`).
    pub const PARAMETERS_MAX: usize = 4096,
        Loses("parameters of a header value");

    /// Bytes of a line beyond which it raises `mime_long_line` (RFC 5322 2.1.1).
    pub const TEXT_LINE_MAX: usize = 998,
        Counts("event `mime_long_line`; nothing is cut");

    /// Bytes of an encoded line beyond which it raises `mime_long_enc_line` (RFC 2045 6.7 and 6.8).
    pub const ENCODED_LINE_MAX: usize = 76,
        Counts("event `mime_long_enc_line`; nothing is cut");

    /// Names of attachments kept of a message. Suricata sets no bound of its own (8.0.7 keeps 1,300 of 1,300); each takes some bytes
    /// of the message, and what a flow holds is taken from the budget of the application layer.
    pub const ATTACHMENTS_MAX: usize = 65_536,
        Loses("names of attachments");

    /// URLs kept of a message. Suricata sets no bound of its own (8.0.7 keeps 1,300 of 1,300); each takes some bytes
    /// of the message, and what a flow holds is taken from the budget of the application layer.
    pub const URLS_MAX: usize = 65_536,
        Loses("URLs of a message");

    /// Bytes of the URLs kept of a message: of a mail of nothing else, a tenth of what mail servers take.
    pub const URL_BYTES_MAX: usize = 4 * 1024 * 1024,
        Loses("URLs of a message");

    /// Decoded text kept while its line end is awaited, for URLs that an encoded line breaks in two.
    pub const TEXT_PENDING_MAX: usize = 4096,
        Spares("a longer text is looked through in pieces");
}
