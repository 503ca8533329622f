//! The front door for people who come from Suricata: its command line, its configuration, its exit
//! codes (0 good, 1 bad), but an empty capture is a success.

mod engine_log;
mod notices;
mod options;
mod show;
pub(crate) mod yaml;

use crate::{assemble, packet_log, read, rules, scripts, stats};
pub(crate) use engine_log::EngineLog;
use gabion_capture::filter::Filter;
use gabion_outputs::files::Outputs;
use gabion_record::Tree;
pub(crate) use options::Options;
use options::Show;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs with these arguments (without the program's name) and gives the exit code.
pub(crate) fn run(args: &[String]) -> i32 {
    let options = match options::parse(args) {
        Ok(o) => o,
        Err(e) => {
            eprintln!("gabion: suricata: {e}");
            return 1;
        }
    };
    match &options.show {
        Some(Show::DumpConfig) | None => {}
        Some(what) => return show::show(what),
    }
    let config = match configuration(&options) {
        Ok(c) => c,
        Err(e) => {
            eprintln!("E: conf-yaml-loader: {e}");
            return 1;
        }
    };
    if options.show == Some(Show::DumpConfig) {
        show::dump_config(&config);
        return 0;
    }
    let folder = folder(&options, &config);
    if (!options.test || options.log_dir.is_some())
        && let Err(e) = check_folder(&folder)
    {
        eprintln!("E: suricata: {e}");
        return 1;
    }
    let mut log = EngineLog::open(&config, &folder, options.verbose);
    let code = with_config(&options, &config, &folder, &mut log);
    log.finish();
    code
}

/// The configuration that the peer reads when none is named.
const INSTALLED: &str = "/etc/suricata/suricata.yaml";

/// The configuration named, else the installed one, else the built-in one.
fn configuration(o: &Options) -> Result<Tree, String> {
    let installed = Path::new(INSTALLED);
    let mut config = match &o.config {
        Some(path) => yaml::read_file(Path::new(path))?,
        None if installed.is_file() => yaml::read_file(installed)?,
        None => crate::configuration::built_in(),
    };
    for path in &o.includes {
        yaml::include_file(&mut config, Path::new(path))?;
    }
    for (k, v) in &o.sets {
        config.set(k, v);
    }
    if let Ok(version) = std::env::var("SURICATA_EVE_DNS_VERSION") {
        dns_version(&mut config, &version);
    }
    Ok(config)
}

/// The peer lets its environment choose the version of DNS records in all EVE outputs.
fn dns_version(config: &mut Tree, version: &str) {
    let Some((_, outputs)) = config.children.iter_mut().find(|(n, _)| n == "outputs") else {
        return;
    };
    let eve = outputs.children.iter_mut().filter_map(|(_, item)| item.children.first_mut());
    for (_, node) in eve.filter(|(n, _)| n == "eve-log") {
        let Some((_, types)) = node.children.iter_mut().find(|(n, _)| n == "types") else {
            continue;
        };
        for (_, item) in &mut types.children {
            if item.value.as_deref() == Some("dns") {
                item.value = None;
                item.children.push(("dns".to_string(), Tree::default()));
            }
            if let Some((_, dns)) = item.children.iter_mut().find(|(n, _)| n == "dns") {
                dns.set("version", version);
            }
        }
    }
}

fn folder(o: &Options, config: &Tree) -> PathBuf {
    match (&o.log_dir, config.text("default-log-dir")) {
        (Some(dir), _) => PathBuf::from(dir),
        (None, Some(dir)) => PathBuf::from(dir),
        (None, None) => PathBuf::from("/var/log/suricata"),
    }
}

fn check_folder(folder: &Path) -> Result<(), String> {
    if !folder.is_dir() {
        return Err(format!(
            "The logging directory \"{}\" supplied at the command-line (-l) doesn't exist. Shutting \
             down the engine.",
            folder.display()
        ));
    }
    Ok(())
}

fn with_config(o: &Options, config: &Tree, folder: &Path, log: &mut EngineLog) -> i32 {
    for name in &o.unknown {
        log.warning("suricata", &format!("option {name} is not known here and has no effect"));
    }
    let firewall = match firewall_mode(o, config) {
        Ok(on) => on,
        Err(e) => {
            log.error("suricata", &e);
            return 1;
        }
    };
    if !notices::check(config, log) {
        return 1;
    }
    let inline = o.simulate_ips || firewall;
    let catalog = gabion_proto::registry::catalog();
    let loaded = match o.no_detection {
        true => None,
        false => match rules::load(config, o, firewall, &catalog, log) {
            Ok(l) => Some(l),
            Err(code) => return code,
        },
    };
    if let Some(l) = &loaded {
        notices::reputation(config, log);
        rules::groups(&l.set, &catalog, config, folder, log);
    }
    if o.engine_analysis {
        return match &loaded {
            Some(l) => rules::analysis(l, &catalog, config, folder, log),
            None => 0,
        };
    }
    let logged = Arc::default();
    let outputs = if o.test {
        Ok(None)
    } else {
        {
            let mut frames =
                |name: &str, node: &Tree| packet_log::open(name, node, folder, &logged);
            Outputs::open(config, folder, &mut frames).map(Some)
        }
    };
    let mut outputs = match outputs {
        Ok(out) => out,
        Err(e) => {
            log.error("output", &e);
            return 1;
        }
    };
    let mut wants = outputs.as_ref().map(Outputs::wants).unwrap_or_default();
    let output_scripts = match o.test {
        true => Vec::new(),
        false => scripts::outputs(config, log),
    };
    wants.join(gabion_net::OutputScripts::records(&output_scripts));
    if let Some(out) = &outputs
        && !out.unknown.is_empty()
    {
        log.warning(
            "output",
            &format!("not supported, nothing is written: {}", out.unknown.join(", ")),
        );
    }
    store_depth_warning(config, log);
    if let Some(l) = &loaded {
        store_warning(config, &l.set, log);
    }
    let mode = assemble::Mode {
        inline,
        firewall,
        checksums: o.checksums,
        profile: o.profile_rules.then_some(true),
        simulate: o.simulate,
    };
    let counts = loaded.as_ref().map(|l| l.counts);
    let engine =
        match assemble::engine(config, loaded.map(|l| (l.set, l.datasets)), catalog, wants, mode) {
            Ok(mut e) => {
                e.scripts = rules::scripts(config, log);
                e.scripts.log_folder = folder.display().to_string();
                e.scripts.module_path = scripts::module_path(config);
                e.scripts.outputs = output_scripts;
                Arc::new(e)
            }
            Err(e) => {
                log.error("conf", &e);
                return 1;
            }
        };
    let filter = match capture_filter(o, config) {
        Ok(f) => f,
        Err(e) => {
            log.error("pcap", &e);
            return 1;
        }
    };
    if o.test {
        log.notice("suricata", "Configuration provided was successfully loaded. Exiting.");
        return 0;
    }
    let Some(outputs) = outputs.as_mut() else { return 0 };
    let data_dir = PathBuf::from(config.text("default-data-dir").unwrap_or("."));
    let run = RunOf { engine: &engine, counts, data_dir: &data_dir, logged: &logged, filter };
    captures(o, run, outputs, log)
}

/// Rules that store files do nothing without the output.
fn store_warning(config: &Tree, set: &gabion_rules::Ruleset, log: &mut EngineLog) {
    let is_on = config
        .get("outputs")
        .is_some_and(|o| o.items("file-store").any(|n| n.flag("enabled") == Some(true)));
    let stores = |s: &gabion_rules::Signature| s.flags.has(gabion_rules::SignatureFlags::FILESTORE);
    if !is_on && set.signatures.iter().any(stores) {
        let said = "One or more rule(s) depends on the file-store output log which is not enabled. \
                    Enable the output \"file-store\".";
        log.warning("detect-filestore", said);
    }
}

/// Files are stored at least as far as their streams are reassembled.
fn store_depth_warning(config: &Tree, log: &mut EngineLog) {
    let store = config.get("outputs").and_then(|o| o.item("file-store"));
    let Some(depth) = store.and_then(|s| s.size("stream-depth")) else { return };
    let reassembled = config.size("stream.reassembly.depth").unwrap_or(0);
    if depth > 0 && depth <= reassembled {
        let said = format!(
            "file-store.stream-depth value {depth} has no effect since it's less than \
             stream.reassembly.depth value."
        );
        log.warning("output-filestore", &said);
    }
}

/// Whether firewall mode is on: by the command line or the configuration.
fn firewall_mode(o: &Options, config: &Tree) -> Result<bool, String> {
    let asked = o.firewall || o.firewall_rules.is_some();
    let exclusive = o.rules_only.is_some() || o.firewall_rules.is_some();
    if o.no_detection && exclusive {
        let said = "can't use -s/-S or --firewall-rules-exclusive when detection is disabled";
        return Err(said.to_string());
    }
    match config.flag("firewall.enabled") {
        Some(false) if asked => {
            Err("firewall mode enabled through commandline, but disabled in config".to_string())
        }
        configured => Ok(asked || configured == Some(true)),
    }
}

/// What a run over captures works with.
struct RunOf<'a> {
    engine: &'a Arc<gabion_net::Engine>,
    counts: Option<gabion_rules::Counts>,
    data_dir: &'a Path,
    logged: &'a packet_log::Counts,
    filter: Option<Filter>,
}

/// The capture filter: words of the command line that are no options, or the configuration's.
fn capture_filter(o: &Options, config: &Tree) -> Result<Option<Filter>, String> {
    let text = match o.filter.is_empty() {
        false => o.filter.join(" "),
        true => match config.text("bpf-filter") {
            Some(text) => text.to_string(),
            None => return Ok(None),
        },
    };
    let filter = Filter::compile(&text).map_err(|e| format!("bpf compilation error: {e}"))?;
    Ok(Some(filter))
}

fn captures(o: &Options, run: RunOf<'_>, outputs: &mut Outputs, log: &mut EngineLog) -> i32 {
    let RunOf { engine, counts, data_dir, logged, filter } = run;
    if o.captures.is_empty() {
        log.error("suricata", "no capture is named: give one with -r FILE");
        return 1;
    }
    let mut worker =
        gabion_net::Worker::new(Arc::clone(engine), gabion_net::WorkerBudgets::standalone(engine));
    let mut code = 0;
    let mut total = gabion_record::ledger::Ledger::default();
    for path in &o.captures {
        let is_folder = Path::new(path).is_dir();
        let list = match read::captures(Path::new(path), o.recursive) {
            Ok(l) => l,
            Err(e) => {
                log.error("pcap", &format!("failed to get first packet timestamp: {e}"));
                return 1;
            }
        };
        for file in list {
            outputs.set_capture(&file.display().to_string());
            match read::capture(&file, filter.as_ref(), &mut worker, outputs, &mut |_, _| true) {
                Ok(done) => {
                    total.merge(&done.ledger);
                    for note in done.notes {
                        log.warning("pcap", &note);
                    }
                }
                // What else lies in a folder is passed over.
                Err(e) if is_folder => {
                    log.error("pcap", &e);
                    let said = format!("Failed to init pcap file {}, skipping", file.display());
                    log.warning("pcap", &said);
                }
                Err(e) => {
                    log.error("pcap", &e);
                    code = 1;
                }
            }
        }
    }
    worker.finish(outputs);
    if let Some(d) = &engine.detector {
        for (path, text) in d.datasets.saves() {
            let path = data_dir.join(path);
            if let Err(e) = std::fs::write(&path, text) {
                log.error("datasets", &format!("{}: cannot be written: {e}", path.display()));
            }
        }
    }
    let mut more = outputs.counters();
    more.extend(logged.stats());
    let json = stats::json(&[&stats::WorkerStats::of(&worker)], engine, counts, &more);
    outputs.stats(stats::now_ns(), &json);
    worker.log_stats(&stats::counters(&[&stats::WorkerStats::of(&worker)], engine));
    if let Err(e) = outputs.flush() {
        log.error("output", &e);
        code = 1;
    }
    if let Err(e) = total.balance() {
        log.error("ledger", &e.to_string());
        code = 1;
    }
    let c = worker.counters();
    log.notice(
        "suricata",
        &format!(
            "read {} packets, {} bytes; {} alerts; ledger: {total}",
            c.packets, c.bytes, c.alerts
        ),
    );
    code
}
