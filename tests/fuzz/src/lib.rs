//! The entry points of the sensor for bytes from outside, each as a function that takes any bytes
//! and panics if something is wrong.
//!
//! A target converts its bytes to the input of its entry point (a script of segments, a rule file,
//! frames), calls it, and then checks what must always hold: nothing panics, offsets are in bounds,
//! two ways to the same result agree (whole and in pieces, fast and naive), budgets are released,
//! and output is JSON. Time is event time from the bytes, so that an input that fails once fails
//! always.
//!
//! `targets` is the table of all targets. It takes protocols from the registry, so that a new
//! protocol is fuzzed without a new line here.
#![forbid(unsafe_code)]

pub mod capture;
pub mod condition;
pub mod config;
pub mod engine;
pub mod feed;
pub mod filter;
pub mod flow;
pub mod flowlog;
pub mod guard;
pub mod intake;
pub mod logs;
pub mod lua;
pub mod matcher;
pub mod mutate;
pub mod naive_condition;
pub mod nfcapd;
pub mod packet;
pub mod probe;
pub mod proto;
pub mod rule_files;
pub mod rules;
pub mod scap;
pub mod script;
pub mod seal;
pub mod seeds;
pub mod sensor;
pub mod syscall;

use seeds::Seeds;

/// The function of a target: it takes an input and panics if something is wrong.
pub type Entry = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Creates first inputs from the seeds.
pub type FirstInputs = Box<dyn Fn(&Seeds) -> Vec<Vec<u8>> + Send + Sync>;

/// An entry point with its first inputs.
pub struct Target {
    /// The name of the target and its program: `CRATE_NAME`.
    pub name: String,
    /// Longest input worth trying, bytes.
    pub len_max: usize,
    /// Passes an input to the entry point; panics if something is wrong.
    pub run: Entry,
    /// Real inputs to begin from.
    pub seeds: FirstInputs,
}

/// All targets.
#[must_use]
pub fn targets() -> Vec<Target> {
    let mut all = vec![
        target("capture_filter", 1 << 13, filter::compile, filter::seeds),
        target("capture_read", 1 << 16, capture::read, Seeds::captures),
        target("condition_filter", 1 << 12, condition::condition, condition::condition_seeds),
        target("condition_format", 1 << 11, condition::format, condition::format_seeds),
        target("condition_rules", 1 << 13, condition::rules, condition::rule_seeds),
        target("config_falco", 1 << 12, condition::configuration, condition::configuration_seeds),
        target("config_yaml", 1 << 15, config::yaml, config::seeds),
        target("flow_fragments", 1 << 13, flow::fragments, flow::fragment_seeds),
        target("flow_streams", 1 << 13, flow::streams, flow::stream_seeds),
        target("guard_recording", 1 << 15, guard::recording, guard::recording_seeds),
        target("intake_server", 1 << 12, intake::server, intake::server_seeds),
        target("logs_envelope", 1 << 12, logs::envelope, logs::envelope_seeds),
        target("logs_framing", 1 << 12, logs::framing, logs::framing_seeds),
        target("logs_journal", 1 << 12, logs::journal, logs::journal_seeds),
        target("logs_relp", 1 << 12, logs::relp, logs::relp_seeds),
        target("logs_syslog", 1 << 12, logs::syslog, logs::syslog_seeds),
        target("flowlog_lines", 1 << 13, flowlog::lines, flowlog::line_seeds),
        target("flowlog_nfcapd", 1 << 13, nfcapd::file, nfcapd::seeds),
        target("flowlog_netflow", 1 << 12, flowlog::netflow, flowlog::netflow_seeds),
        target("flowlog_feed", 1 << 13, feed::files, feed::file_seeds),
        target("behavior_lists", 1 << 13, feed::lists, feed::list_seeds),
        target("behavior_intel", 1 << 12, flowlog::intel, flowlog::intel_seeds),
        target("behavior_parcel", 1 << 12, flowlog::parcel, flowlog::parcel_seeds),
        target("behavior_profile", 1 << 13, flowlog::profile, flowlog::profile_seeds),
        target("matcher_naive", 1 << 12, matcher::naive, matcher::naive_seeds),
        target("matcher_regex", 1 << 11, matcher::regex, matcher::regex_seeds),
        target("net_engine", 1 << 15, engine::frames, engine::seeds),
        target("net_script", 1 << 13, lua::script, lua::seeds),
        target("syscall_state", 1 << 13, syscall::state, syscall::scripts),
        target("packet_decode", 1 << 11, packet::decode, packet::seeds),
        target("probe_records", 1 << 12, probe::records, probe::record_seeds),
        target("rules_files", 1 << 13, rule_files::files, rule_files::seeds),
        target("rules_parse", 1 << 13, rules::parse, rules::seeds),
        target("scap_events", 1 << 11, scap::events, scap::scripts),
        target("scap_read", 1 << 14, scap::read, scap::files),
        target("scap_rewrite", 1 << 14, scap::rewrite, scap::files),
        target("seal_checkpoint", 1 << 14, seal::checkpoint, seal::checkpoint_seeds),
        target("seal_chunk", 1 << 12, seal::chunk, seal::chunk_seeds),
        target("seal_slog_file", 1 << 13, seal::slog_file, seal::slog_file_seeds),
        target("sensor_flows", 1 << 13, sensor::flows, sensor::flow_seeds),
        target("sensor_packets", 1 << 14, sensor::packets, Seeds::captures),
        target("seal_segment", 1 << 10, seal::segment, seal::segment_seeds),
    ];
    for protocol in gabion_proto::registry() {
        all.push(Target {
            name: format!("proto_{}", protocol.table.name),
            len_max: 1 << 14,
            run: Box::new(move |data| proto::parse(protocol, data)),
            seeds: Box::new(move |seeds| proto::seeds(protocol, seeds)),
        });
    }
    all
}

fn target(name: &str, len_max: usize, run: fn(&[u8]), seeds: fn(&Seeds) -> Vec<Vec<u8>>) -> Target {
    Target { name: name.to_owned(), len_max, run: Box::new(run), seeds: Box::new(seeds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays inputs that once failed, from one folder per target.
    #[test]
    fn inputs_that_once_failed_pass() {
        let folder = seeds::repository().join("tests/fuzz/regressions");
        let mut tried = 0;
        for target in targets() {
            let Ok(files) = std::fs::read_dir(folder.join(&target.name)) else { continue };
            for file in files.flatten() {
                (target.run)(&std::fs::read(file.path()).unwrap());
                tried += 1;
            }
        }
        assert!(tried >= 3, "{tried} inputs in {}", folder.display());
    }

    #[test]
    fn every_target_accepts_empty_input_and_its_seeds() {
        let seeds = Seeds::new(None);
        for target in targets() {
            (target.run)(&[]);
            let own = (target.seeds)(&seeds);
            assert!(!own.is_empty() || target.name.starts_with("proto_"), "{}", target.name);
            own.iter().take(40).for_each(|seed| (target.run)(seed));
        }
    }
}
