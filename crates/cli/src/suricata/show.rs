//! Listings: version, build information, configuration, protocols, hooks.

use super::options::Show;
use crate::standard_output;
use gabion_record::Tree;
use gabion_record::applayer::{Catalog, Transport};

/// Features that tests and scripts look for; only what is really there. `LIBNET1.1` is Suricata's
/// word for rules that reject: they load, and verdicts show which packets would be sent.
const FEATURES: &str = "PCAP_SET_BUFF AF_PACKET HAVE_PACKET_FANOUT LIBNET1.1 HAVE_HTP_URI_NORMALIZE_HOOK PCRE_JIT HAVE_LUA HAVE_JA3 HAVE_JA4 HAVE_LIBJANSSON TLS TLS_C11 MAGIC RUST";

/// Prints what was asked for and gives the exit code.
pub(crate) fn show(what: &Show) -> i32 {
    let catalog = gabion_proto::registry::catalog();
    match what {
        Show::Version => standard_output::line(format_args!(
            "This is Suricata version {} RELEASE\nAnswered by Gabion {}",
            gabion_outputs::VERSION,
            crate::command_line::VERSION
        )),
        Show::BuildInfo => build_info(),
        Show::Help => help(),
        Show::DumpFeatures => standard_output::line(FEATURES),
        Show::Keywords(form) => return keywords(&catalog, form.as_deref()),
        Show::RunModes => runmodes(),
        Show::Protocols => protocols(&catalog),
        Show::Hooks => hooks(&catalog),
        Show::Frames => frames(&catalog),
        Show::DumpConfig => {}
    }
    0
}

fn build_info() {
    standard_output::line(format_args!(
        "This is Suricata version {} RELEASE",
        gabion_outputs::VERSION
    ));
    standard_output::line(format_args!("Features: {FEATURES}"));
    standard_output::line("SIMD support: AVX2 (chosen at start)");
    standard_output::line(format_args!(
        "Gabion {}: a sensor of its own that answers as this version does",
        crate::command_line::VERSION
    ));
    for (name, on) in [
        ("AF_PACKET", "no"),
        ("JA3", "yes"),
        ("JA4", "yes"),
        ("Lua", "yes"),
        ("libmagic", "yes"),
        ("liblz4", "yes"),
        ("Hyperscan", "no"),
        ("Landlock", "no"),
        ("GeoIP2", "yes"),
    ] {
        standard_output::line(format_args!(
            "  {name} support:{:>width$}{on}",
            "",
            width = 30usize.saturating_sub(name.len())
        ));
    }
}

fn help() {
    standard_output::line(
        "usage: gabion suricata (-r CAPTURE | -i INTERFACE) [-c YAML] [-S RULES | -s RULES] [-l FOLDER] [options]\n\n\
         -c FILE                 configuration\n\
         --include FILE          a further configuration file\n\
         --data-dir FOLDER       where datasets are\n\
         --set NAME=VALUE        sets a configuration value\n\
         -r FILE|FOLDER|-        captures\n\
         --af-packet[=INTERFACE] read from this interface, or from those of the configuration; -i INTERFACE does the same\n\
         --pcap-file-recursive   read folders below as well\n\
         --pcap-file-delete      delete captures that were read to their end\n\
         --pcap-file-continuous  read further captures of the folder until stopped\n\
         -D                      continue in the background once all is loaded\n\
         --user NAME  --group NAME  run as that user and group\n\
         -F FILE, EXPRESSION     a capture filter that selects frames\n\
         --runmode MODE          single (default), autofp or workers: how many threads\n\
         --pidfile FILE          holds the process id while it runs\n\
         -s FILE                 rules in addition to those of the configuration\n\
         -S FILE                 rules instead of those of the configuration\n\
         -l FOLDER               write outputs into this folder\n\
         -k all|none             verify checksums: all or none\n\
         -T                      test configuration and rules\n\
         --init-errors-fatal     end the run if a rule is refused or there is no command socket\n\
         --disable-detection     load no rules\n\
         --strict-rule-keywords[=LIST]  refuse a rule where there would be a warning\n\
         --firewall              firewall mode\n\
         --firewall-rules-exclusive FILE  firewall rules instead of those of the configuration\n\
         --profile-rules         writes what each rule cost into rule_perf.log\n\
         --metrics ADDR:PORT     metrics for Prometheus at this address of the machine itself\n\
         --disable-conf FILE     --enable-conf FILE  --modify-conf FILE  rules to turn off and on and to change,\n\
                                 in suricata-update's formats\n\
         --engine-analysis       reports on the rules\n\
         --simulate-ips          drop as an inline sensor would\n\
         -v                      print more; repeat it for more\n\
         --dump-config  --dump-features  --build-info  --list-keywords[=csv|all|NAME]  --list-runmodes\n\
         --list-app-layer-protos  --list-app-layer-hooks  --list-app-layer-frames  -V",
    );
}

/// Ways to read captures; the last is for configurations made for interfaces.
fn runmodes() {
    standard_output::line(
        "------------------------------------- Runmodes ------------------------------------------",
    );
    standard_output::line(format_args!(
        "| {:<17} | {:<17} | Description ",
        "RunMode Type", "Custom Mode"
    ));
    for (mode, name, what) in [
        ("PCAP_FILE", "single", "one worker (without a run mode too)"),
        ("", "autofp", "several workers, each with its own flows; the same answers"),
        ("", "workers", "the same"),
    ] {
        standard_output::line(format_args!("| {mode:<17} | {name:<17} | {what}"));
    }
}

/// Rule keywords: their names, or a table with what is known of each.
fn keywords(catalog: &Catalog, form: Option<&str>) -> i32 {
    match form {
        Some("csv" | "all") => {
            standard_output::text(gabion_rules::keyword_list_csv(catalog, gabion_outputs::VERSION))
        }
        Some(name) => {
            match gabion_rules::describe_keyword(name, catalog, gabion_outputs::VERSION) {
                Some(text) => standard_output::text(text),
                None => {
                    standard_output::line("Non existing keyword");
                    return 1;
                }
            }
        }
        None => {
            standard_output::line("=====Supported keywords=====");
            for k in gabion_rules::all_keywords(catalog) {
                standard_output::line(format_args!("- {}", k.name));
            }
        }
    }
    0
}

fn protocols(catalog: &Catalog) {
    standard_output::line("=========Supported App Layer Protocols=========");
    for p in &catalog.protocols {
        standard_output::line(p.name);
    }
}

fn hooks(catalog: &Catalog) {
    standard_output::line("=========Supported App Layer Hooks=========");
    for p in &catalog.protocols {
        let named = p.states_to_server.iter().chain(p.states_to_client).filter(|s| !s.is_empty());
        for s in named {
            standard_output::line(format_args!("{}:{s}", p.name));
        }
    }
}

fn frames(catalog: &Catalog) {
    standard_output::line("=========Supported App Layer Frames=========");
    for p in catalog.protocols.iter().filter(|p| !p.frames.is_empty()) {
        for t in p.transports {
            let (transport, stream) = match t {
                Transport::Tcp => ("tcp", Some("stream")),
                Transport::Udp => ("udp", None),
            };
            for name in stream.iter().chain(p.frames) {
                standard_output::line(format_args!("{transport}: {}.{name}", p.name));
            }
        }
    }
}

/// Prints the resolved configuration, `key = value` a line.
pub(crate) fn dump_config(config: &Tree) {
    fn walk(prefix: &str, t: &Tree) {
        for (name, child) in &t.children {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            // An item of a list that is a mapping carries its first key as its own value.
            let first = child.children.first().filter(|_| t.is_sequence).map(|(n, _)| n.as_str());
            standard_output::line(format_args!(
                "{path} = {}",
                child.value.as_deref().or(first).unwrap_or("(null)")
            ));
            walk(&path, child);
        }
    }
    walk("", config);
}
