//! What is reported of the options of EVE outputs before a run, in Suricata's words (8.0.7, observed): some
//! end the run, others are named and passed over.

use gabion_proto::Protocol;
use gabion_record::Tree;

/// Types of records that are not those of a protocol.
const TYPES: &[&str] = &[
    "alert", "anomaly", "files", "stats", "flow", "frame", "arp", "drop", "stream", "netflow",
    "metadata", "vars",
];

/// The words before the name of a type of records that is unknown.
pub(crate) const NO_TYPE: &str = "No output module named eve-log.";

/// Kinds of files that Suricata writes records into.
const FILE_TYPES: &[&str] =
    &["regular", "file", "syslog", "unix_dgram", "unix_stream", "redis", "tcp", "file_thread"];

/// Why a run ends: the part of the program that says so, and what.
type Fatal = Vec<(&'static str, String)>;

/// Receives what is wrong and continues: the part of the program, and the message.
type Say<'s> = &'s mut dyn FnMut(&'static str, &str);

/// Checks the options of EVE outputs: `say` takes the module and the text of what is passed over.
///
/// # Errors
/// What the run ends with: modules and texts.
pub fn check_eve_options(
    config: &Tree,
    say: &mut dyn FnMut(&'static str, &str),
) -> Result<(), Vec<(&'static str, String)>> {
    let Some(outputs) = config.get("outputs") else { return Ok(()) };
    let mut drops = 0;
    for eve in outputs.items("eve-log").filter(|eve| eve.flag("enabled") == Some(true)) {
        output(eve, &mut drops, say)?;
    }
    Ok(())
}

fn output(eve: &Tree, drops: &mut u32, say: Say<'_>) -> Result<(), Fatal> {
    if let Some(kind) = eve.text("filetype")
        && !FILE_TYPES.contains(&kind)
    {
        return Err(vec![("output-json", format!("Invalid JSON output option: {kind}"))]);
    }
    // Suricata 8.0.7 reads it also where it is not used.
    if let Some(seed) = eve.text("community-id-seed")
        && seed.trim().parse::<u16>().is_err()
    {
        let said = format!("Failed to initialize JSON output, invalid community-id-seed: {seed}");
        return Err(vec![("output-json", said)]);
    }
    xff(eve, say);
    for (_, item) in eve.get("types").map_or(&[][..], |list| &list.children) {
        let own;
        let (name, node) = match (&item.value, item.children.first()) {
            (Some(name), _) => {
                own = Tree::default();
                (name, &own)
            }
            (None, Some((name, node))) => (name, node),
            (None, None) => continue,
        };
        if node.flag("enabled") != Some(false) {
            record(name, node, drops, say)?;
        }
    }
    Ok(())
}

fn record(name: &str, node: &Tree, drops: &mut u32, say: Say<'_>) -> Result<(), Fatal> {
    match name {
        "ikev2" => say("runmodes", "eve module 'ikev2' has been replaced by 'ike'"),
        _ if !TYPES.contains(&name) && !gabion_proto::registry::eve_types().any(|t| t == name) => {
            say("runmodes", &format!("{NO_TYPE}{name}"));
        }
        "alert" => {
            xff(node, say);
            if let Err((mut said, text)) = size(node, "payload-buffer-size") {
                let what = format!("Error parsing payload-buffer-size - {text}. Killing engine");
                said.push(("output-json-alert", what));
                return Err(said);
            }
        }
        "frame" => {
            if let Err((mut said, text)) = size(node, "payload-buffer-size") {
                let what = format!("Error parsing payload-buffer-size \"{text}\"");
                said.push(("output-json-frame", what));
                return Err(unable(said, name));
            }
        }
        "stats" if [node.flag("totals"), node.flag("threads")] == [Some(false); 2] => {
            let what = "Cannot disable both totals and threads in stats logging".to_string();
            return Err(unable(vec![("output-json-stats", what)], name));
        }
        "drop" => {
            *drops += 1;
            if *drops > 1 {
                let what = "only one 'drop' logger can be enabled".to_string();
                return Err(unable(vec![("output-json-drop", what)], name));
            }
        }
        _ => {
            for protocol in gabion_proto::registry().iter().filter(|p| p.eve_type == name) {
                protocol_options(protocol, node, say)?;
            }
        }
    }
    Ok(())
}

/// Checks the options of a protocol's records, as its table says.
fn protocol_options(protocol: &'static Protocol, node: &Tree, say: Say<'_>) -> Result<(), Fatal> {
    for key in protocol.eve_sizes {
        if let Err((mut said, text)) = size(node, key) {
            let what = format!("Error parsing {key} from config - {text}, ");
            said.push((protocol.eve_logger, what));
            return Err(said);
        }
    }
    (protocol.check_eve_options)(node, &mut |text| say(protocol.eve_logger, text));
    Ok(())
}

fn unable(mut said: Fatal, name: &str) -> Fatal {
    said.push(("runmodes", format!("unable to initialize sub-module eve-log.{name}")));
    said
}

/// A size that can't be read: what Suricata's reader of sizes says of it first, and its text.
fn size(node: &Tree, key: &str) -> Result<(), (Fatal, String)> {
    let Some(text) = node.text(key) else { return Ok(()) };
    if node.size(key).is_some() {
        return Ok(());
    }
    // With a number in front it is only the unit that Suricata does not know.
    let said = if text.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        Vec::new()
    } else {
        vec![(
            "misc",
            format!(
                "invalid size argument: '{text}'. Valid input is <number><unit>. Unit can be \
                 kb/KiB, mb/MiB or gb/GiB"
            ),
        )]
    };
    Err((said, text.to_string()))
}

fn xff(node: &Tree, say: Say<'_>) {
    let Some(xff) = node.get("xff").filter(|x| x.flag("enabled") == Some(true)) else { return };
    if let Some(mode) = xff.text("mode").filter(|m| !matches!(*m, "extra-data" | "overwrite")) {
        let said = format!("The XFF mode {mode} is invalid, falling back to extra-data mode");
        say("app-layer-htp-xff", &said);
    }
    if let Some(way) = xff.text("deployment").filter(|d| !matches!(*d, "reverse" | "forward")) {
        let said =
            format!("The XFF mode {way} is invalid, falling back to reverse proxy deployment");
        say("app-layer-htp-xff", &said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::read_yaml_text;

    /// The error that ends the run, and how often another warning is reported.
    fn checked(types: &str) -> (Fatal, usize) {
        let text =
            format!("%YAML 1.1\n---\noutputs: [{{eve-log: {{enabled: yes, types: [{types}]}}}}]\n");
        let config = read_yaml_text("test", &text).unwrap();
        let mut said = 0;
        (check_eve_options(&config, &mut |_, _| said += 1).err().unwrap_or_default(), said)
    }

    /// The settings with which Suricata 8.0.7 ends, and those with which it continues.
    #[test]
    fn some_options_end_the_run() {
        for (types, modules, others) in [
            ("flow, nonsense, ikev2", &[][..], 2),
            ("dns: {version: 7}", &[], 1),
            ("tls: {custom: [sni, nonsense, certificate, chain]}", &[], 2),
            ("mqtt: {string-log-limit: 4kb}", &[], 0),
            ("mqtt: {string-log-limit: lots}", &["misc", "output-json-mqtt"], 0),
            ("mqtt: {string-log-limit: 1foo}", &["output-json-mqtt"], 0),
            ("alert: {payload-buffer-size: 4foo}", &["output-json-alert"], 0),
            ("frame: {payload-buffer-size: foo}", &["misc", "output-json-frame", "runmodes"], 0),
            ("stats: {totals: no, threads: no}", &["output-json-stats", "runmodes"], 0),
            ("stats: {totals: yes, threads: yes}", &[], 0),
            ("drop, drop: {start: yes}", &["output-json-drop", "runmodes"], 0),
        ] {
            let (fatal, said) = checked(types);
            let names: Vec<&str> = fatal.iter().map(|(module, _)| *module).collect();
            assert_eq!((names.as_slice(), said), (modules, others), "{types}");
        }
    }
}
