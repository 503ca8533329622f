//! What a run is made of: settings, rules, and from both the calls that a live source records.

use crate::syscalls::LiveSettings;
use gabion_condition::rules::RuleSet;
use gabion_probe::syscalls::{Interest, Settings};
use gabion_record::fields::events;
use gabion_scap::table::{Call, calls};
use gabion_settings::falco::FalcoSettings;
use std::path::PathBuf;
use std::sync::Arc;

/// Settings and rules of a run. Both may be replaced while it lasts.
#[derive(Debug)]
pub struct FalcoPlan {
    /// The configuration.
    pub settings: FalcoSettings,
    /// The rules.
    pub rules: Arc<RuleSet>,
}

/// The least calls that the state of threads needs, whatever the rules are (`base_syscalls.repair`, Falco 0.44).
const REPAIRED: &[&str] = &[
    "clone",
    "clone3",
    "fork",
    "vfork",
    "execve",
    "execveat",
    "fchdir",
    "chdir",
    "chroot",
    "capset",
    "setgid",
    "setpgid",
    "setresgid",
    "setresuid",
    "setsid",
    "setuid",
    "prctl",
];

/// Calls that give a socket to a server.
const ACCEPTING: &[&str] = &["accept", "accept4", "listen"];

impl FalcoPlan {
    /// The names of calls that rules are tried on.
    fn of_rules(&self) -> Vec<&'static str> {
        self.rules.types().names()
    }

    /// The calls that are recorded: those of the rules and those that the state needs. `base_syscalls` of the settings
    /// replaces the latter (`custom_set`, `repair`) or takes all.
    pub(super) fn interest(&self) -> Interest {
        let base = &self.settings.base_calls;
        let mut set = if base.repair {
            self.repaired()
        } else if base.added.is_empty() {
            Interest::state()
        } else {
            Interest::none()
        };
        set.exits = true;
        base.added.iter().for_each(|name| {
            set.add(name);
        });
        for name in self.of_rules() {
            set.add(name);
        }
        base.removed.iter().for_each(|name| {
            set.remove(name);
        });
        if !base.all {
            for call in calls().iter().filter(|call| is_ignored(call)) {
                set.remove(call.name);
            }
        }
        set
    }

    fn repaired(&self) -> Interest {
        let mut set = Interest::none();
        REPAIRED.iter().for_each(|name| {
            set.add(name);
        });
        let base = &self.settings.base_calls;
        let mut wanted: Vec<&str> = self.of_rules();
        wanted.extend(base.added.iter().map(String::as_str));
        let has =
            |category: &str| wanted.iter().any(|name| category_of(name).starts_with(category));
        let uses_network = has("net") || has("io_read") || has("io_write");
        if has("net") {
            set.add("socket");
            set.add("getsockopt");
        }
        if wanted.iter().any(|name| ACCEPTING.contains(name)) {
            set.add("bind");
        }
        if uses_network || has("file") {
            set.add("close");
        }
        set
    }

    /// Calls that rules name and that are not recorded, as Falco leaves them out too.
    pub(super) fn left_out(&self) -> Vec<&'static str> {
        let base = &self.settings.base_calls;
        let names = self.of_rules();
        let of_rules = |call: &&Call| names.contains(&call.name);
        let ignored = calls().iter().filter(|call| is_ignored(call) && !base.all);
        ignored.filter(of_rules).map(|call| call.name).collect()
    }

    /// What a live source records, and with how much memory.
    pub(super) fn live_settings(&self) -> LiveSettings {
        let live = &self.settings.live;
        let mut session = Settings::new(self.interest());
        session.snaplen = live.snaplen;
        session.set_rings(live.cpus_per_ring, live.ring_bytes);
        let root = std::env::var_os("HOST_ROOT").unwrap_or_else(|| "/".into());
        LiveSettings { session, root: PathBuf::from(root) }
    }
}

fn category_of(name: &str) -> &'static str {
    let types = events::types_of(name).unwrap_or_default();
    let row = types.first().and_then(|number| events::types().get(usize::from(*number)));
    row.map_or("", |row| row.category)
}

/// Whether Falco leaves a call out unless `base_syscalls.all` is set: reads and writes of data.
pub(super) fn is_ignored(call: &Call) -> bool {
    let types = events::types_of(call.name).unwrap_or_default();
    let is_io = types.iter().any(|number| {
        events::types()
            .get(usize::from(*number))
            .is_some_and(|row| row.category.starts_with("io_r") || row.category.starts_with("io_w"))
    });
    is_io && !call.is_simple && !call.is_state
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_condition::rules::{Loader, Settings as LoaderSettings};
    use gabion_record::Tree;
    use gabion_settings::falco::{apply_override, read_falco_settings};

    fn plan(condition: &str, options: &[&str]) -> FalcoPlan {
        let mut config = Tree::default();
        options.iter().for_each(|option| apply_override(&mut config, option).unwrap());
        let mut loader = Loader::new(LoaderSettings::default());
        let text = format!(
            "- rule: r\n  desc: d\n  condition: {condition}\n  output: o\n  priority: ERROR\n"
        );
        assert!(loader.load("rules.yaml", &text).is_successful());
        let settings = read_falco_settings(&config).unwrap();
        FalcoPlan { settings, rules: Arc::new(loader.into_rules()) }
    }

    #[test]
    fn calls_of_rules_and_of_the_state_are_recorded() {
        let set = plan("evt.type in (ptrace, read)", &[]).interest();
        assert!(set.has("ptrace") && set.has("execve") && set.has("close") && set.exits);
        assert!(!set.has("read") && !set.has("mkdir"), "reads are left out, as by Falco");
        let every = plan("evt.type in (ptrace, read)", &["base_syscalls.all=true"]).interest();
        assert!(every.has("read") && !every.has("mkdir"));
        let generic = plan("evt.type=getppid", &[]).interest();
        assert!(generic.has("getppid"));
        assert_eq!(plan("evt.type in (ptrace, read)", &[]).left_out(), ["read"]);
    }

    #[test]
    fn base_calls_of_the_configuration_replace_those_of_the_state() {
        let own = ["base_syscalls.custom_set=[execve, !ptrace]"];
        let set = plan("evt.type in (ptrace, mkdir)", &own).interest();
        assert!(set.has("execve") && set.has("mkdir") && !set.has("ptrace") && !set.has("close"));
        let repaired = plan("evt.type=accept4", &["base_syscalls.repair=true"]).interest();
        for call in ["clone", "socket", "bind", "close", "accept4"] {
            assert!(repaired.has(call), "{call}");
        }
        assert!(!repaired.has("openat"));
        let least = plan("evt.type=setuid", &["base_syscalls.repair=true"]).interest();
        assert!(least.has("clone") && !least.has("close") && !least.has("socket"));
    }
}
