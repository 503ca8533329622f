//! A script that is an output, as the operator names it.

/// A script that is an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputScript {
    /// Its path, for messages.
    pub path: String,
    /// Its text.
    pub source: Vec<u8>,
    /// What it logs.
    pub kind: OutputKind,
}

/// What a script is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// Each packet.
    Packet,
    /// Each alert.
    Alert,
    /// Each transaction of a protocol (EVE name).
    Transaction(&'static str),
    /// Each file.
    File,
    /// Each flow that ends.
    Flow,
    /// Statistics.
    Stats,
    /// Bytes of TCP streams.
    TcpStream,
    /// Bytes of HTTP bodies.
    HttpBody,
}
