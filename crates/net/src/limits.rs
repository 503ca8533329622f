//! Limits of the engine, each with its reason, its source and what reaching it means.

use gabion_record::limits;

/// Files waiting for pieces that are looked at when the budget does not allow another piece, in addition
/// to those that are abandoned: so few that refusing a piece costs no more than accepting it.
pub const RANGES_LOOKED_AT: usize = 1;

/// Seconds an announced flow is waited for: Suricata's own.
pub const EXPECTATION_SECONDS: u64 = 30;

/// Bytes that a parser takes before it is weighed again at the earliest: what it holds is then known
/// to some KiB, for a hundredth of what parsing costs.
pub const WEIGH_BYTES: u32 = 4 << 10;

/// Transactions after which it is weighed at the earliest: small ones may hold a hundred times what
/// they came from.
pub const WEIGH_TXS: u64 = 4;

/// The frame of a run at which it is decided whether checksums are looked at further
/// (`pcap-file.checksum-checks: auto`): Suricata's own.
pub const CHECKSUM_SAMPLE: u64 = 1_000;

/// Wrong checksums before it with which they still are: Suricata's own, a tenth of the frames.
pub const CHECKSUM_WRONG_MAX: u64 = 100;

/// Bytes of a flow's packets, headers too, for which it may have one more record of its transactions
/// and of their events, see [`FLOW_RECORDS_MAX`]: the headers of IPv4 and TCP have as many, so a message in a packet of its
/// own always has one, and with its acknowledgement two; a record takes some 300 bytes and more, so 40 bytes that come in
/// make some ten times as many that go out, without those that are repeated.
pub const BYTES_OF_RECORD: u64 = 40;

/// Bytes inspected again of a flow's transactions for each byte of its packets, see [`INSPECTED_AGAIN_BYTES_MAX`]: a
/// full packet then has some ten transactions inspected again, which costs less than ten ordinary packets.
pub const INSPECTED_AGAIN_FROM_ONE: u64 = 8;

/// Bytes that looking at a buffer or a rule counts for in addition to the buffer's own: most buffers are shorter than
/// what finding them costs.
pub const INSPECTION_BYTES: u64 = 32;

/// Transactions of a flow beyond which a packet looks at those alone that it has changed.
pub const CROWD_MIN: usize = 64;

limits! { "net";
    /// Records of a flow's transactions and of their events, in addition to one for each 40 bytes of
    /// its packets: a full segment can hold 700 messages of two bytes, whose records would be 300 times
    /// as long. Rules see all of them.
    pub const FLOW_RECORDS_MAX: u64 = 128, Loses("records of transactions and of their events, of a flow with more than one for each 40 bytes");

    /// Bytes of buffers that a flow may have inspected again although the state of their transaction is what it was when
    /// it was inspected, in addition to 8 for each byte of its packets: a message that continues for many packets
    /// is searched from its beginning with each, and one packet can continue dozens of them. Flows of people stay far
    /// below it: their messages continue for some packets only.
    pub const INSPECTED_AGAIN_BYTES_MAX: u64 = 256 << 10,
        Loses("inspections of a transaction in a state in which it was inspected before: rules see it when the state changes, or the flow ends");

    /// Alerts of one packet that are written (`packet-alert-max`), unless configured: Suricata's default.
    pub const PACKET_ALERTS_MAX: usize = 15, Counts("alerts beyond it, as `alert_queue`");

    /// Announced flows that wait at a time: some 6 MiB, and two thousand a second that are waited for
    /// 30 seconds.
    pub const EXPECTATIONS_MAX: usize = 65_536, Loses("the announced flow that has waited longest: its protocol is looked for instead");

    /// Flows ended at a time.
    pub const END_AT_A_TIME: usize = 1_024, Spares("the caller may report that it is alive, and continues");

    /// Frames kept per flow and direction until they are inspected and logged: as many as the smallest
    /// records, of four bytes, that the largest IP packet can hold.
    pub const FRAMES_PER_DIRECTION: usize = 16_384, Loses("frames: rules and records do not see them");

    /// Bytes of a frame that are held whole.
    pub const HOLD_BYTES_MAX: u64 = 64 * 1024, Spares("a longer frame is inspected in pieces");

    /// Hardware addresses in a flow's record, by side. Suricata's own: its record of a flow with 12
    /// addresses on a side names 10.
    pub const MACS_PER_SIDE: usize = 10, Loses("hardware addresses in a flow's record");

    /// Bytes of a script's state (`security.lua.max-bytes`), unless configured: Suricata's default.
    pub const SCRIPT_BYTES_MAX: u64 = 500_000, Counts("runs of a script that failed, in `detect.lua`");

    /// Instructions of one run of a script (`security.lua.max-instructions`), unless configured:
    /// Suricata's default.
    pub const SCRIPT_INSTRUCTIONS_MAX: u64 = 500_000, Counts("runs of a script that failed, in `detect.lua`");

    /// Bytes that one substitution of a script may build outside of its state: eight times the state.
    pub const SCRIPT_RESULT_BYTES_MAX: u64 = 4 << 20, Counts("runs of a script that failed, in `detect.lua`");

    /// Bytes of a line that a script prints, so that no line grows without bound.
    pub const SCRIPT_LINE_BYTES_MAX: usize = 64 << 10, Loses("the end of a line that a script printed");

    /// Byte variables, flow variables or flow integers that one script may register: Suricata's.
    pub const SCRIPT_VARIABLES_MAX: usize = 15, Refuses("the script");

    /// Captures of a script's pattern (`LUA_MAXCAPTURES` of Lua 5.4).
    pub const SCRIPT_CAPTURES_MAX: usize = 32, Counts("runs of a script that failed, in `detect.lua`");

    /// Nesting of a script's pattern (`MAXCCALLS` of Lua 5.4's patterns).
    pub const SCRIPT_PATTERN_DEPTH_MAX: u32 = 200, Counts("runs of a script that failed, in `detect.lua`");

    /// Outcomes of scripts' transforms kept while one packet is inspected.
    pub const SCRIPT_TRANSFORMED_MAX: usize = 64, Spares("the script is run again");

    /// Rules in the lists of those that fit addresses and ports, kept per worker from flow to flow: eight
    /// megabytes.
    pub const FITTING_RULES_MAX: usize = 1 << 20, Spares("lists asked for beyond it are made again");

    /// Bits of hosts, and of pairs of hosts, that rules set (`hostbits`, `xbits`). Suricata's budgets
    /// (`host.memcap` 32 MiB, `ippair.memcap` 16 MiB) hold fewer.
    pub const HOST_BITS_MAX: usize = 1 << 20, Loses("bits of hosts that rules set");

    /// Entries of thresholds by rule and address. Suricata's budget (`detect.thresholds.memcap` 16 MiB)
    /// holds fewer.
    pub const THRESHOLDS_MAX: usize = 1 << 20, Loses("thresholds of a rule for an address: it alerts as if it had none");

    /// Flows and hosts of which packets are logged since a rule with `tag` alerted. Suricata keeps them
    /// with flows and hosts, of which `host.memcap` (32 MiB) holds no more.
    pub const TAGS_MAX: usize = 65_536, Loses("packets of further flows and hosts that rules tag");

    /// Values of a dataset without a `memcap`: Suricata sets no bound then, and 16 million values of some
    /// 100 bytes are more than the machine should give.
    pub const DATASET_VALUES_MAX: usize = 1 << 24, Loses("values of a dataset");

    /// Steps of one rule in one buffer, relative matches tried again (Suricata's
    /// `detect.inspection-recursion-limit`).
    pub const CONTENT_STEPS_MAX: u32 = 3000, Loses("looking for a rule's contents in a buffer to the end");

    /// Backtracking steps of one search of a rule's expression (Suricata's `pcre.match-limit`), unless
    /// configured. What the linear-time engine can answer is not lost.
    pub const PCRE_STEPS_MAX: u32 = gabion_matcher::limits::REGEX_MATCH_LIMIT,
        Loses("a search of a rule's expression");

    /// A value taken from the traffic from which on `isdataat` holds no data: Suricata's.
    pub const DATA_AT_MAX: u64 = 100_000_000, Spares("there is no data, for Suricata too");

    /// Frames of ASN.1 that a rule looks at (Suricata's `asn1-max-frames`).
    pub const ASN1_FRAMES_MAX: usize = 256, Loses("ASN.1 after them");

    /// Notes on transactions that a worker keeps to be used again: of those of some dozen flows.
    pub const SPARE_NOTES_MAX: usize = 64, Spares("further ones are made again");

    /// Bytes of a buffer up to which a worker keeps what a search of it found: a method, a host or a user agent.
    pub const SEARCHED_BYTES_MAX: usize = 256, Spares("longer buffers are searched each time");

    /// Rules that such a search may have found to be kept.
    pub const SEARCH_FOUND_MAX: usize = 256, Spares("the buffer is searched again");

    /// Searches of each buffer that a worker keeps: 5 KB for each buffer that rules have patterns for.
    pub const SEARCHES_KEPT: usize = 4, Spares("a buffer that says something else is searched");

    /// Conditions that are asked once for all rules with them: the bits of a word.
    pub const GATES_MAX: usize = 64, Spares("further conditions are asked by each rule");

    /// Ports that have a set of patterns of their own, for payloads of a protocol and direction: rule sets name
    /// two or three so often.
    pub const SPLIT_PORTS_MAX: usize = 4, Spares("packets of further ports are searched for more patterns");

    /// Protocols that have a set of patterns of their own, for streams of a direction.
    pub const SPLIT_APPS_MAX: usize = 4, Spares("streams of further protocols are searched for more patterns");

    /// Bytes of a buffer whose grams are kept: half of what the map can distinguish.
    pub const GRAM_BYTES_MAX: usize = 4096, Spares("rules look at a longer buffer without them");

    /// Bytes of one direction after which a protocol that was not found is no longer looked for: Suricata's own
    /// (8.0.7: `failed` at 101,000 bytes, open at 99,500).
    pub const DETECT_BYTES_MAX: usize = 100_000,
        Loses("looking for a stream's protocol: event `applayer_proto_detection_skipped`");

    /// Bytes of a direction held for a parser that wants more before it says anything: sixteen times the
    /// largest unit that any waits for.
    pub const PARSER_PENDING_MAX: usize = gabion_proto::limits::PENDING_BYTES_MAX * 16, Counts("stream bytes, as `app_memcap`");

    /// Workers of a group: each has one place for its position.
    pub const WORKERS_MAX: usize = 64, Spares("more are not started");
}
