//! Every limit of log intake, with its reason. Reaching one is counted where it is reached.

use gabion_record::limits;

/// How long an envelope is remembered: a day, in seconds.
pub const REPLAY_AGE_S: u32 = 24 * 3600;

/// What a source may send on in one turn of the fair queue, bytes.
pub const QUEUE_QUANTUM: usize = 16 * 1024;

limits! { "logs";
    /// Bytes of a message that are kept; the rest is cut and flagged. rsyslog keeps 8 KiB, syslog-ng
    /// 64 KiB: cutting less than either of them would be the worse evidence.
    pub const MESSAGE_BYTES_MAX: usize = 64 * 1024,
        Counts("the rest of the message, which is marked and counted as cut");

    /// The largest count that octet counting may state. Above it the digits are text: a sender whose
    /// lines begin with a number must not make the receiver swallow what follows.
    pub const OCTET_COUNT_MAX: u64 = 1024 * 1024,
        Counts("the count, which is text then, as an error of framing");

    /// Digits of a count, as syslog-ng allows.
    pub const OCTET_COUNT_DIGITS_MAX: usize = 10,
        Counts("the count, which is text then, as an error of framing");

    /// Digits of RELP's transaction number and data length.
    pub const RELP_NUMBER_DIGITS_MAX: usize = 9,
        Refuses("the session");

    /// Letters of a RELP command.
    pub const RELP_COMMAND_MAX: usize = 32,
        Refuses("the session");

    /// Data of a RELP frame, librelp's default limit.
    pub const RELP_DATA_MAX: usize = 128 * 1024,
        Refuses("the session");

    /// The largest transaction number; the next one is 1.
    pub const RELP_TXNR_MAX: u32 = 999_999_999,
        Spares("the next number is 1, as RELP says");

    /// Unanswered RELP frames after which a connection is not read any more. librelp's clients stop
    /// at 128 on their own.
    pub const RELP_WINDOW: usize = 1024,
        Spares("the connection is read on when frames were answered");

    /// Structured data elements and parameters that a reader hands out; more stay in the raw bytes.
    pub const SD_PARAMS_MAX: usize = 256,
        Loses("further parameters for readers: the message keeps them");

    /// Bytes that a `z`-packed body (rsyslog's extension) may grow to.
    pub const UNPACKED_MAX: usize = 64 * 1024,
        Spares("the body stays packed, as it came");

    /// Bytes of a slog envelope. slog reads 2,048 by default; the largest line of 64 KiB in hex and a
    /// wrapped key of 8,192 bits stay below this.
    pub const ENVELOPE_BYTES_MAX: usize = 160 * 1024,
        Counts("the envelope, as one that can't be opened");

    /// Envelopes that the replay window remembers: 28 MiB, taken at the start.
    pub const REPLAY_ENVELOPES_MAX: usize = 1_000_000,
        Loses("that the oldest envelope of the day came: it could be sent again");

    /// Bytes of a slog configuration file.
    pub const CONFIG_BYTES_MAX: usize = 1024 * 1024,
        Refuses("the configuration");

    /// Bytes of an entry of systemd's journal: as many as a record of the sealed log may have.
    pub const JOURNAL_ENTRY_MAX: usize = gabion_seal::limits::RECORD_MAX,
        Counts("the field without room (a core dump, say): its entry is marked as cut");

    /// Letters of a field's name in systemd's journal, as journald allows.
    pub const JOURNAL_NAME_MAX: usize = 64,
        Refuses("the stream, which is not one of the journal");

    /// Sources that a fair queue tracks apart; further ones share one place.
    pub const QUEUE_SOURCES_MAX: usize = 4096,
        Spares("further ones share one line of the queue");

    /// Senders whose sequence numbers (`meta sequenceId`) are followed; the one heard of longest ago
    /// makes room.
    pub const SEQUENCES_MAX: usize = 4096,
        Loses("the last number of the sender heard of longest ago: a gap in its numbers is missed");

    /// Numbers skipped up to which they are messages lost: a sender that restarts skips more, or goes back.
    pub const SEQUENCE_GAP_MAX: u32 = 1 << 20,
        Spares("the sender has restarted");

    /// Bytes of lines that a range of records may come to when the last ones are shown first.
    pub(crate) const RANGE_BYTES_MAX: usize = 64 << 20,
        Spares("the range is read again in halves");
}
