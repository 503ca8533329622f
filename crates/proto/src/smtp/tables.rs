//! What SMTP offers to rules.

use crate::buffer::local_buffers;
use crate::files;
use gabion_record::Direction::ToServer;
use gabion_record::applayer::{BufferDef, EventDef, Hook, OwnOutputs, ProtoTable, Transport};

/// Progress of a transaction in either direction.
pub(super) mod progress {
    #![allow(missing_docs)]
    pub(crate) const STARTED: u8 = 0;
    pub(crate) const DATA: u8 = 1;
    pub(crate) const COMPLETE: u8 = 2;
}

local_buffers! {
    FileName, FileMagic, FileData, Helo, MailFrom, RcptTo, From, Subject, To, Cc, Date, MessageId, XMailer,
    Url, Received,
}

macro_rules! events {
    ($($(#[$doc:meta])* $code:ident $name:literal $n:literal,)*) => {
        /// Events by their codes.
        pub mod event {
            $($(#[$doc])* pub const $code: u16 = $n;)*
        }

        const EVENTS: &[EventDef] = &[$(EventDef { name: $name, code: $n },)*];
    };
}

events! {
    /// An unknown reply code, or a greeting other than 220.
    INVALID_REPLY "invalid_reply" 0,
    /// Never raised: Suricata has the name only.
    UNABLE_TO_MATCH_REPLY_WITH_REQUEST "unable_to_match_reply_with_request" 1,
    /// Never raised: see [`TRUNCATED_LINE`].
    MAX_COMMAND_LINE_LEN_EXCEEDED "max_command_line_len_exceeded" 2,
    /// Never raised: see [`TRUNCATED_LINE`].
    MAX_REPLY_LINE_LEN_EXCEEDED "max_reply_line_len_exceeded" 3,
    /// A command after one that has to be the last of its group.
    INVALID_PIPELINED_SEQUENCE "invalid_pipelined_sequence" 4,
    /// Never raised: chunks are counted out exactly.
    BDAT_CHUNK_LEN_EXCEEDED "bdat_chunk_len_exceeded" 5,
    /// A line before the server's greeting.
    NO_SERVER_WELCOME_MESSAGE "no_server_welcome_message" 6,
    /// The server did not accept STARTTLS.
    TLS_REJECTED "tls_rejected" 7,
    /// The server did not accept DATA.
    DATA_COMMAND_REJECTED "data_command_rejected" 8,
    /// Raised by the engine's change of protocol in Suricata.
    FAILED_PROTOCOL_CHANGE "failed_protocol_change" 9,
    /// Never raised.
    MIME_PARSE_FAILED "mime_parse_failed" 10,
    /// Never raised.
    MIME_MALFORMED_MSG "mime_malformed_msg" 11,
    /// Padding where none can be.
    MIME_INVALID_BASE64 "mime_invalid_base64" 12,
    /// An escape that is none.
    MIME_INVALID_QP "mime_invalid_qp" 13,
    /// A line over 998 bytes.
    MIME_LONG_LINE "mime_long_line" 14,
    /// An encoded line over 76 bytes.
    MIME_LONG_ENC_LINE "mime_long_enc_line" 15,
    /// A header name over 75 bytes.
    MIME_LONG_HEADER_NAME "mime_long_header_name" 16,
    /// A header value over the configured depth.
    MIME_LONG_HEADER_VALUE "mime_long_header_value" 17,
    /// A boundary over 254 bytes.
    MIME_LONG_BOUNDARY "mime_long_boundary" 18,
    /// A file name over 255 bytes.
    MIME_LONG_FILENAME "mime_long_filename" 19,
    /// A second sender or greeting.
    DUPLICATE_FIELDS "duplicate_fields" 20,
    /// DATA again without an answer to the first.
    UNPARSABLE_CONTENT "unparsable_content" 21,
    /// A line over the limit was cut.
    TRUNCATED_LINE "truncated_line" 22,
    /// BDAT without a number, or with something else after it.
    INVALID_BDAT "invalid_bdat" 23,
}

const fn at(progress: u8, local: Local) -> Hook {
    Hook::new(ToServer, progress, local as u16)
}

macro_rules! buffer {
    ($name:literal, $what:literal, $progress:expr, $local:ident $(, $field:ident)*) => {
        BufferDef {
            name: $name,
            internal: $name,
            description: $what,
            hooks: &[at($progress, Local::$local)],
            $($field: true,)*
            ..BufferDef::PLAIN
        }
    };
}

use progress::{DATA, STARTED};

const BUFFERS: &[BufferDef] = &[
    files::name_buffer(&[at(DATA, Local::FileName)]),
    files::magic_buffer(&[at(DATA, Local::FileMagic)]),
    files::data_buffer(&[at(DATA, Local::FileData)]),
    buffer!("smtp.helo", "SMTP HELO", STARTED, Helo),
    buffer!("smtp.mail_from", "SMTP MAIL FROM", STARTED, MailFrom),
    buffer!("smtp.rcpt_to", "SMTP RCPT TO", STARTED, RcptTo, multi),
    buffer!("email.from", "MIME EMAIL FROM", DATA, From),
    buffer!("email.subject", "MIME EMAIL SUBJECT", DATA, Subject),
    buffer!("email.to", "MIME EMAIL TO", DATA, To),
    buffer!("email.cc", "MIME EMAIL CC", DATA, Cc),
    buffer!("email.date", "MIME EMAIL DATE", DATA, Date),
    buffer!("email.message_id", "MIME EMAIL MESSAGE ID", DATA, MessageId),
    buffer!("email.x_mailer", "MIME EMAIL X-MAILER", DATA, XMailer),
    buffer!("email.url", "MIME EMAIL URL", DATA, Url, multi),
    buffer!("email.received", "MIME EMAIL RECEIVED", DATA, Received, multi),
];

/// Frames, in the order of their numbers.
pub(super) mod frame {
    /// A line from the client that is a command: each is there twice, with its line end and without
    /// (as Suricata has it).
    pub(crate) const COMMAND_LINE: u8 = 0;
    /// A mail after DATA, without the dot that ends it.
    pub(crate) const DATA: u8 = 1;
    /// A line from the server.
    pub(crate) const RESPONSE_LINE: u8 = 2;
}

const FRAMES: &[&str] = &["command_line", "data", "response_line"];

/// What SMTP offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    name: "smtp",
    eve_name: "smtp",
    rule_names: &["smtp"],
    transports: &[Transport::Tcp],
    is_counted_by_transport: false,
    has_uncounted_txs: false,
    states_to_server: &["request_started", "request_data", "request_complete"],
    states_to_client: &["response_started", "response_data", "response_complete"],
    buffers: BUFFERS,
    integers: &[],
    conditions: &[],
    events: EVENTS,
    events_from: [0; 2],
    events_in_capitals: true,
    frames: FRAMES,
    any_version: None,
    own_outputs: OwnOutputs::SCRIPTS,
    advises_modifiers: false,
    has_memory_counters: false,
    other_keywords: &[],
    refuses_file_names: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_definitions_agree() {
        for (i, def) in BUFFERS.iter().enumerate() {
            for hook in def.hooks {
                assert_eq!(usize::from(hook.local), i, "{}", def.name);
                assert_eq!(Local::from_number(hook.local).map(|l| l as u16), Some(hook.local));
            }
        }
    }
}
