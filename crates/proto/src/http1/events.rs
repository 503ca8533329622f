//! Irregularities of HTTP/1: names as rules and EVE have them (in EVE in upper case).
//!
//! The names are Suricata's (8.0.7), which took most of them from the HTTP library it uses; a few
//! can't occur in this parser (it has no such state) and are here so that rules naming them load.

use gabion_record::applayer::EventDef;

macro_rules! events {
    ($($event:ident $name:literal,)*) => {
        /// An irregularity.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        #[allow(dead_code, reason = "rules may name what nothing raises: see above")]
        pub(crate) enum Event { $($event,)* }

        /// All of them.
        pub(crate) const EVENTS: &[EventDef] =
            &[$(EventDef { name: $name, code: Event::$event as u16 },)*];
    };
}

events! {
    UnknownError "unknown_error",
    GzipDecompressionFailed "gzip_decompression_failed",
    RequestFieldMissingColon "request_field_missing_colon",
    ResponseFieldMissingColon "response_field_missing_colon",
    InvalidRequestChunkLen "invalid_request_chunk_len",
    InvalidResponseChunkLen "invalid_response_chunk_len",
    RequestChunkExtension "request_chunk_extension",
    ResponseChunkExtension "response_chunk_extension",
    InvalidTransferEncodingInRequest "invalid_transfer_encoding_value_in_request",
    InvalidTransferEncodingInResponse "invalid_transfer_encoding_value_in_response",
    InvalidContentLengthInRequest "invalid_content_length_field_in_request",
    InvalidContentLengthInResponse "invalid_content_length_field_in_response",
    DuplicateContentLengthInRequest "duplicate_content_length_field_in_request",
    DuplicateContentLengthInResponse "duplicate_content_length_field_in_response",
    ContinueAlreadySeen "100_continue_already_seen",
    UnableToMatchResponse "unable_to_match_response_to_request",
    InvalidServerPortInRequest "invalid_server_port_in_request",
    InvalidAuthorityPort "invalid_authority_port",
    RequestHeaderInvalid "request_header_invalid",
    ResponseHeaderInvalid "response_header_invalid",
    MissingHostHeader "missing_host_header",
    HostHeaderAmbiguous "host_header_ambiguous",
    InvalidRequestFieldFolding "invalid_request_field_folding",
    InvalidResponseFieldFolding "invalid_response_field_folding",
    RequestFieldTooLong "request_field_too_long",
    ResponseFieldTooLong "response_field_too_long",
    RequestLineInvalid "request_line_invalid",
    RequestBodyUnexpected "request_body_unexpected",
    ResponseBodyUnexpected "response_body_unexpected",
    ServerPortMismatch "request_server_port_tcp_port_mismatch",
    UriHostInvalid "request_uri_host_invalid",
    HeaderHostInvalid "request_header_host_invalid",
    AuthUnrecognized "request_auth_unrecognized",
    RequestHeaderRepetition "request_header_repetition",
    ResponseHeaderRepetition "response_header_repetition",
    DoubleEncodedUri "double_encoded_uri",
    UriDelimNonCompliant "uri_delim_non_compliant",
    MethodDelimNonCompliant "method_delim_non_compliant",
    RequestLineLeadingWhitespace "request_line_leading_whitespace",
    TooManyEncodingLayers "too_many_encoding_layers",
    RequestTooManyLzmaLayers "request_too_many_lzma_layers",
    ResponseTooManyLzmaLayers "response_too_many_lzma_layers",
    AbnormalCeHeader "abnormal_ce_header",
    ResponseMultipartByteranges "response_multipart_byteranges",
    ResponseAbnormalTransferEncoding "response_abnormal_transfer_encoding",
    ResponseChunkedOldProto "response_chunked_old_proto",
    ResponseInvalidProtocol "response_invalid_protocol",
    ResponseInvalidStatus "response_invalid_status",
    RequestLineIncomplete "request_line_incomplete",
    ProtocolContainsExtraData "protocol_contains_extra_data",
    ContentLengthExtraDataStart "content_length_extra_data_start",
    ContentLengthExtraDataEnd "content_length_extra_data_end",
    SwitchingProtoWithContentLength "switching_proto_with_content_length",
    DeformedEol "deformed_eol",
    ParserStateError "parser_state_error",
    MissingOutboundTransactionData "missing_outbound_transaction_data",
    MissingInboundTransactionData "missing_inbound_transaction_data",
    ZeroLengthDataChunks "zero_length_data_chunks",
    RequestLineUnknownMethod "request_line_unknown_method",
    RequestLineUnknownMethodNoProtocol "request_line_unknown_method_no_protocol",
    RequestLineUnknownMethodInvalidProtocol "request_line_unknown_method_invalid_protocol",
    RequestLineMissingProtocol "request_line_missing_protocol",
    ResponseLineInvalidProtocol "response_line_invalid_protocol",
    ResponseLineInvalidResponseStatus "response_line_invalid_response_status",
    ResponseBodyInternalError "response_body_internal_error",
    RequestBodyDataCallbackError "request_body_data_callback_error",
    ResponseInvalidEmptyName "response_invalid_empty_name",
    RequestInvalidEmptyName "request_invalid_empty_name",
    ResponseInvalidLwsAfterName "response_invalid_lws_after_name",
    ResponseHeaderNameNotToken "response_header_name_not_token",
    RequestInvalidLwsAfterName "request_invalid_lws_after_name",
    LzmaDecompressionDisabled "lzma_decompression_disabled",
    ConnectionAlreadyOpen "connection_already_open",
    CompressionBombDoubleLzma "compression_bomb_double_lzma",
    InvalidContentEncoding "invalid_content_encoding",
    InvalidGap "invalid_gap",
    LzmaMemlimitReached "lzma_memlimit_reached",
    CompressionBomb "compression_bomb",
    CompressionBombLimitReached "compression_bomb_limit_reached",
    RequestTooManyHeaders "request_too_many_headers",
    ResponseTooManyHeaders "response_too_many_headers",
    MultipartGenericError "multipart_generic_error",
    MultipartNoFiledata "multipart_no_filedata",
    MultipartInvalidHeader "multipart_invalid_header",
    TooManyWarnings "too_many_warnings",
    RangeInvalid "range_invalid",
    FileNameTooLong "file_name_too_long",
    FailedProtocolChange "failed_protocol_change",
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every event Suricata's own rules name is there (its `http-events.rules`, 8.0.7).
    #[test]
    fn events_of_suricata_rules_are_known() {
        for name in [
            "unknown_error",
            "gzip_decompression_failed",
            "100_continue_already_seen",
            "request_uri_host_invalid",
            "request_header_host_invalid",
            "request_auth_unrecognized",
            "response_abnormal_transfer_encoding",
            "compression_bomb_limit_reached",
            "range_invalid",
            "failed_protocol_change",
            "request_too_many_headers",
        ] {
            assert!(EVENTS.iter().any(|e| e.name == name), "{name}");
        }
        for (i, e) in EVENTS.iter().enumerate() {
            assert_eq!(e.code as usize, i);
        }
    }
}
