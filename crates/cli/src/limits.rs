//! Limits of the program's own readers; those of the engines are in their crates.

use gabion_record::limits;

limits! { "cli";
    /// Bytes of a file with a capture filter: Suricata's bound.
    pub(crate) const FILTER_BYTES_MAX: u64 = 128 << 10,
        Refuses("the filter");

    /// Most seconds that an option may ask for: ten years, beyond which a clock of 64 bits could not count on.
    pub(crate) const SECONDS_MAX: u64 = 10 * 366 * 86_400,
        Refuses("the command line");

    /// Connections that `gabion send` opens over each transport: each is a thread.
    pub(crate) const SEND_CONNECTIONS_MAX: u64 = 10_000,
        Refuses("the command line");

    /// Bytes of a message that `gabion send` makes: more than any listener takes.
    pub(crate) const SEND_BYTES_MAX: u64 = 64 << 20,
        Refuses("the command line");
}
