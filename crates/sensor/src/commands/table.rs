//! The commands of the socket. Names, arguments and answers are those of Suricata 8.0.7, learnt by asking it.

use super::client::{Request, text_of};
use super::refusal::Refusal;
use super::{Answer, Reply, ask};
use crate::packets::{LoadError, LoadOutcome, LoadRequest, OnLoaded, RuleFacts, RunHandles};
use gabion_flowlog::json::members;
use gabion_net::{DatasetFault, Datasets, Worker};
use gabion_outputs::timestamp::Stamp;
use gabion_record::config::parse_size;
use gabion_record::json::Json;
use gabion_record::{Addr, Tree};
use gabion_rules::compiled::DatasetType;
use gabion_rules::compiled::buffer::DatasetCommand;
use gabion_runtime::Signals;
use gabion_runtime::output::write_whole;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What commands ask for and act on.
#[derive(Debug)]
pub struct CommandContext {
    /// The configuration.
    pub config: Arc<Tree>,
    /// The run.
    pub handles: RunHandles,
    /// Requests to stop, and to open files again.
    pub signals: Signals,
    /// An interface is read.
    pub is_live: bool,
    /// The name of the mode in which workers get packets, if one was named.
    pub running_mode: Option<String>,
    /// When the run began.
    pub started: Instant,
}

/// A command: what it does with its arguments.
type Carry = fn(&CommandContext, &Arguments, Reply) -> Answer;

/// All commands, in Suricata's order.
static COMMANDS: &[(&str, Carry)] = &[
    ("shutdown", shutdown),
    ("command-list", command_list),
    ("help", command_list),
    ("version", |_, _, _| Answer::text(&format!("{} RELEASE", gabion_outputs::VERSION))),
    ("uptime", |c, _, _| Answer::Done(c.started.elapsed().as_secs().to_string().into_bytes())),
    ("running-mode", running_mode),
    ("capture-mode", capture_mode),
    ("conf-get", conf_get),
    ("dump-counters", |c, _, reply| ask::counters(&c.handles, c.started, &reply)),
    ("reload-rules", reload_and_wait),
    ("ruleset-reload-rules", reload_and_wait),
    ("ruleset-reload-nonblocking", reload),
    ("ruleset-reload-time", reload_time),
    ("ruleset-stats", ruleset_stats),
    ("ruleset-failed-rules", failed_rules),
    ("register-tenant-handler", no_tenants),
    ("unregister-tenant-handler", no_tenants),
    ("register-tenant", no_tenants),
    ("reload-tenant", no_tenants),
    ("reload-tenants", no_tenants),
    ("unregister-tenant", no_tenants),
    ("add-hostbit", add_hostbit),
    ("remove-hostbit", remove_hostbit),
    ("list-hostbit", list_hostbit),
    ("reopen-log-files", reopen),
    ("memcap-set", memcap_set),
    ("memcap-show", memcap_show),
    ("memcap-list", memcap_list),
    ("dataset-add", dataset_add),
    ("dataset-remove", dataset_remove),
    ("dataset-add-json", dataset_add_json),
    ("get-flow-stats-by-id", flow_stats),
    ("dataset-dump", dataset_dump),
    ("dataset-clear", dataset_clear),
    ("dataset-lookup", dataset_lookup),
    ("iface-stat", iface_stat),
    ("iface-list", iface_list),
    ("iface-bypassed-stat", no_bypass),
    ("ebpf-bypassed-stat", no_bypass),
];

/// The arguments of a command.
struct Arguments(Vec<(String, String)>);

impl Arguments {
    fn parse_object(object: &[u8]) -> Arguments {
        let mut all = Vec::new();
        // What was given is an object that was read before.
        let _ = members(object, |key, value| {
            all.push((String::from_utf8_lossy(key).into_owned(), text_of(value)));
        });
        Arguments(all)
    }

    /// One that must be there.
    fn get(&self, name: &str) -> Result<&str, Answer> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .ok_or_else(|| refused(Refusal::NoArgument { name: name.to_owned() }))
    }
}

/// Gives an answer, or the one that says what is missing.
fn or_refused(answer: Result<Answer, Answer>) -> Answer {
    answer.unwrap_or_else(|refusal| refusal)
}

fn refused(why: Refusal) -> Answer {
    Answer::Refused(why)
}

/// A message that is made of JSON.
fn json(write: impl FnOnce(&mut Json)) -> Answer {
    let mut j = Json::new();
    write(&mut j);
    Answer::Done(j.take_bytes())
}

impl CommandContext {
    /// Carries out a command.
    pub(super) fn carry_out(&self, request: &Request, reply: Reply) -> Answer {
        let found = COMMANDS.iter().find(|(name, _)| *name == request.command);
        let Some((_, carry)) = found else { return refused(Refusal::UnknownCommand) };
        carry(self, &Arguments::parse_object(&request.arguments), reply)
    }

    /// Has something done by a worker, which answers.
    fn by_worker(
        &self,
        reply: Reply,
        work: impl FnOnce(&mut Worker) -> Answer + Send + 'static,
    ) -> Answer {
        let task = Box::new(move |worker: &mut Worker| reply.send(work(worker)));
        if self.handles.tasks.post(0, task) { Answer::Later } else { refused(Refusal::Busy) }
    }
}

fn shutdown(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    c.signals.ask_stop();
    Answer::text("Closing Suricata")
}

fn running_mode(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    let is_several = c.handles.tasks.workers() > 1;
    Answer::text(match c.running_mode.as_deref() {
        Some("autofp") => "autofp",
        Some("workers") => "workers",
        _ if is_several => "workers",
        _ => "single",
    })
}

fn capture_mode(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    Answer::text(if c.is_live { "AF_PACKET_DEV" } else { "PCAP_FILE" })
}

fn command_list(_: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    json(|j| {
        j.open();
        j.number("count", COMMANDS.len() as u64);
        j.open_array_key("commands");
        COMMANDS.iter().for_each(|(name, _)| j.item(name));
        j.close_array();
        j.close();
    })
}

fn conf_get(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    or_refused(a.get("variable").map(|name| match c.config.text(name) {
        Some(value) => Answer::text(value),
        None => refused(Refusal::NoVariable),
    }))
}

fn reload_and_wait(c: &CommandContext, _: &Arguments, reply: Reply) -> Answer {
    let on_loaded = Box::new(move |outcome: &LoadOutcome| {
        reply.send(match outcome {
            LoadOutcome::Done { .. } => Answer::text("done"),
            LoadOutcome::Failed(why) => refused(Arc::clone(why).into()),
        });
    });
    begin_load(c, Some(on_loaded), Answer::Later)
}

fn reload(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    begin_load(c, None, Answer::text("done"))
}

/// Has rules loaded, where the run has some.
fn begin_load(c: &CommandContext, on_loaded: Option<OnLoaded>, begun: Answer) -> Answer {
    let Some(reloads) = &c.handles.reloads else {
        return refused(Arc::new(LoadError::NoDetection).into());
    };
    match reloads.begin(on_loaded) {
        LoadRequest::Begun | LoadRequest::Queued => begun,
        LoadRequest::Refused => refused(Refusal::Loading),
    }
}

fn reload_time(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    let RuleFacts { loaded_ns, .. } = c.handles.running.facts();
    let mut at = Vec::new();
    Stamp::new().iso(loaded_ns, &mut at);
    json(|j| {
        j.open_array();
        j.open();
        j.number("id", 0u64);
        j.field("last_reload", &at);
        j.close();
        j.close_array();
    })
}

fn ruleset_stats(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    let RuleFacts { counts, .. } = c.handles.running.facts();
    json(|j| {
        j.open_array();
        j.open();
        j.number("id", 0u64);
        j.number("rules_loaded", counts.loaded);
        j.number("rules_failed", counts.failed);
        j.number("rules_skipped", counts.skipped);
        j.close();
        j.close_array();
    })
}

fn failed_rules(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    let failed = c.handles.running.failed_rules();
    json(|j| {
        j.open_array();
        for rule in failed.iter() {
            j.open();
            j.number("tenant_id", 0u64);
            j.field("rule", &rule.rule);
            j.field("filename", &rule.file);
            j.number("line", rule.line);
            j.field("error", &rule.message);
            j.close();
        }
        j.close_array();
    })
}

fn no_tenants(_: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    refused(Refusal::NoTenants)
}

fn no_bypass(_: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    refused(Refusal::NoBypass)
}

fn host(a: &Arguments) -> Result<Addr, Answer> {
    let text = a.get("ipaddress")?;
    match text.parse() {
        Ok(IpAddr::V4(v4)) => Ok(Addr::v4(v4.octets())),
        Ok(IpAddr::V6(v6)) => Ok(Addr(v6.octets())),
        Err(_) => Err(refused(Refusal::NoAddress)),
    }
}

fn add_hostbit(c: &CommandContext, a: &Arguments, reply: Reply) -> Answer {
    let read = || {
        let (host, name) = (host(a)?, a.get("hostbit")?.to_owned());
        let expire = a.get("expire")?.parse().map_err(|_| refused(Refusal::NoNumber))?;
        Ok(c.by_worker(reply, move |worker| {
            if worker.set_host_bit(host, &name, expire) {
                Answer::text("hostbit added")
            } else {
                refused(Refusal::NoHostBit)
            }
        }))
    };
    or_refused(read())
}

fn remove_hostbit(c: &CommandContext, a: &Arguments, reply: Reply) -> Answer {
    let read = || {
        let (host, name) = (host(a)?, a.get("hostbit")?.to_owned());
        Ok(c.by_worker(reply, move |worker| {
            if worker.clear_host_bit(host, &name) {
                Answer::text("hostbit removed")
            } else {
                refused(Refusal::NoHostBit)
            }
        }))
    };
    or_refused(read())
}

fn list_hostbit(c: &CommandContext, a: &Arguments, reply: Reply) -> Answer {
    let read = || {
        let host = host(a)?;
        Ok(c.by_worker(reply, move |worker| {
            let bits = worker.host_bits(host);
            if bits.is_empty() {
                return refused(Refusal::NoHost);
            }
            json(|j| {
                j.open();
                j.number("count", bits.len() as u64);
                j.open_array_key("hostbits");
                for (name, expire) in &bits {
                    j.open();
                    j.field("name", name);
                    j.number("expire", *expire);
                    j.close();
                }
                j.close_array();
                j.close();
            })
        }))
    };
    or_refused(read())
}

fn reopen(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    c.signals.ask_reopen();
    Answer::text("done")
}

/// Limits of memory by Suricata's names, with the budgets that keep them, the keys that set them and their defaults here.
const MEMCAPS: [(&str, &str, &str, &str); 4] = [
    ("stream", "net/stream", "stream.memcap", "64mb"),
    ("stream-reassembly", "net/reassembly", "stream.reassembly.memcap", "256mb"),
    ("flow", "net/flow", "flow.memcap", "128mb"),
    ("defrag", "net/defrag", "defrag.memcap", "32mb"),
];

/// A limit as it is now; before the run begins, as configured.
fn memcap(c: &CommandContext, name: &str) -> Option<String> {
    let (_, budget, key, usual) = MEMCAPS.iter().find(|(known, ..)| *known == name)?;
    let configured = c.config.text(key).unwrap_or(usual);
    Some(match c.handles.budget.limit_of(budget).or(parse_size(configured)) {
        Some(bytes) => in_suricatas_units(bytes),
        None => configured.to_owned(),
    })
}

/// An amount of memory as Suricata's answers have it.
fn in_suricatas_units(bytes: u64) -> String {
    match bytes {
        0x10_0000.. => format!("{}mb", bytes >> 20),
        1024.. => format!("{}kb", bytes >> 10),
        _ => format!("{bytes}b"),
    }
}

fn memcap_list(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    json(|j| {
        j.open_array();
        for (name, ..) in MEMCAPS {
            j.open();
            j.field("name", name);
            j.field("value", memcap(c, name).unwrap_or_default());
            j.close();
        }
        j.close_array();
    })
}

fn memcap_show(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    or_refused(a.get("config").map(|name| match memcap(c, name) {
        Some(value) => json(|j| {
            j.open();
            j.field("value", value);
            j.close();
        }),
        None => refused(Refusal::NoMemcap),
    }))
}

/// Changes a limit while tables use it.
fn memcap_set(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    let set = || {
        let name = a.get("config").map_err(|_| refused(Refusal::NoMemcapName))?;
        let value = a.get("memcap").map_err(|_| refused(Refusal::NoMemcapSize))?;
        let known = MEMCAPS.iter().find(|(known, ..)| *known == name);
        let (_, budget, ..) = known.ok_or_else(|| refused(Refusal::NoMemcap))?;
        let no_size = || refused(Refusal::WrongMemcap);
        let bytes = parse_size(value).ok_or_else(no_size)?;
        if bytes == 0 {
            return Err(refused(Refusal::Unlimited { name: name.to_owned() }));
        }
        match c.handles.budget.change_limit(budget, bytes) {
            Some(Ok(())) => {
                Ok(Answer::text(&format!("memcap value for '{name}' updated: {bytes} ")))
            }
            Some(Err(used)) => Err(refused(Refusal::MemoryInUse {
                name: name.to_owned(),
                used: in_suricatas_units(used),
            })),
            None => Err(refused(Refusal::NotBegun)),
        }
    };
    or_refused(set())
}

fn dataset(c: &CommandContext, a: &Arguments, command: DatasetCommand) -> Result<bool, Answer> {
    let (name, kind) = (a.get("setname")?, a.get("settype")?);
    let engine = c.handles.running.now();
    let Some(detector) = &engine.detector else {
        return Err(refused(Refusal::NoDataset));
    };
    let kind = DatasetType::from_name(kind).ok_or_else(|| refused(Refusal::NoDatasetType))?;
    let value = a.get("datavalue")?;
    let done = detector.datasets.operate((name, kind), value, command);
    done.map_err(|fault| match fault {
        DatasetFault::Set => refused(Refusal::NoDataset),
        DatasetFault::Value | DatasetFault::File => refused(Refusal::NotAdded),
    })
}

fn dataset_add(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    or_refused(dataset(c, a, DatasetCommand::Set).map(|is_new| {
        if is_new { Answer::text("data added") } else { Answer::text("data already in set") }
    }))
}

fn dataset_add_json(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    let add = || {
        let (name, kind) = (a.get("setname")?, a.get("settype")?);
        let kind = DatasetType::from_name(kind).ok_or_else(|| refused(Refusal::NoDatasetType))?;
        let value = a.get("datavalue")?;
        let added = match a.get("datajson") {
            Ok(context) => {
                let engine = c.handles.running.now();
                let sets = engine.detector.as_ref().map(|detector| &detector.datasets);
                let add = |sets: &Datasets| sets.add_with_context((name, kind), value, context);
                sets.map_or(Err(DatasetFault::Set), add)
            }
            Err(_) => Err(DatasetFault::Value),
        };
        added.map_err(|fault| match fault {
            DatasetFault::Set => refused(Refusal::NoDataset),
            DatasetFault::Value | DatasetFault::File => refused(Refusal::NotAdded),
        })
    };
    or_refused(add().map(|is_new| {
        if is_new { Answer::text("data added") } else { Answer::text("data already in set") }
    }))
}

fn dataset_remove(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    or_refused(dataset(c, a, DatasetCommand::Unset).map(|was_there| {
        if was_there { Answer::text("data removed") } else { refused(Refusal::NotRemoved) }
    }))
}

fn dataset_lookup(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    or_refused(dataset(c, a, DatasetCommand::IsSet).map(|is_there| {
        if is_there { Answer::text("item found in set") } else { refused(Refusal::NoItem) }
    }))
}

fn dataset_clear(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    let read = || {
        let engine = c.handles.running.now();
        let sets = engine.detector.as_ref().map(|detector| &detector.datasets);
        let (name, kind) = (a.get("setname")?, DatasetType::from_name(a.get("settype")?));
        let is_cleared = kind.is_some_and(|kind| sets.is_some_and(|sets| sets.clear(name, kind)));
        Ok(if is_cleared { Answer::text("dataset cleared") } else { refused(Refusal::NoDataset) })
    };
    or_refused(read())
}

fn dataset_dump(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    let folder = Path::new(c.config.text("default-data-dir").unwrap_or("."));
    let engine = c.handles.running.now();
    for (path, text) in engine.detector.iter().flat_map(|d| d.datasets.saves()) {
        let path = folder.join(path);
        if let Err(source) = write_whole(&path, &text) {
            return refused(Refusal::NotSaved { path, source });
        }
    }
    Answer::text("datasets dump done")
}

fn flow_stats(c: &CommandContext, a: &Arguments, reply: Reply) -> Answer {
    let read = || {
        let id = a.get("flow_id")?.parse().map_err(|_| refused(Refusal::NoFlow))?;
        Ok(ask::flow(&c.handles.tasks, id, &reply))
    };
    or_refused(read())
}

fn iface_list(c: &CommandContext, _: &Arguments, _: Reply) -> Answer {
    let all = c.handles.board.interfaces();
    json(|j| {
        j.open();
        j.number("count", all.len() as u64);
        j.open_array_key("ifaces");
        all.iter().for_each(|of| j.item(&of.name));
        j.close_array();
        j.close();
    })
}

fn iface_stat(c: &CommandContext, a: &Arguments, _: Reply) -> Answer {
    or_refused(a.get("iface").map(|name| {
        match c.handles.board.interfaces().into_iter().find(|of| of.name == name) {
            None => refused(Refusal::NoInterface),
            Some(of) => json(|j| {
                j.open();
                j.number("pkts", of.offered.saturating_sub(of.dropped));
                j.number("invalid-checksums", 0u64);
                j.number("drop", of.dropped);
                j.number("bypassed", 0u64);
                j.close();
            }),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]));
    }
}
