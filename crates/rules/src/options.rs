//! What a load needs in addition to rules and catalog.

use crate::action::Action;
use crate::limits::CARRIED_NAMES_MAX;
use crate::names::Names;
use crate::ruleset::{Classification, DatasetDef, Ruleset, ScriptFacts};

/// What the program that loads rules has against a file, a dataset or a script; its text refuses the rule.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

/// Reads a file that a rule names (hash list, dataset, script), path resolved; an error is the
/// system's message.
pub type FileReader<'o> = &'o dyn Fn(&str) -> Result<Vec<u8>, HostError>;

/// Makes a dataset as a rule describes it (number and definition), so that what is wrong with its
/// file refuses the rule; an error is what is wrong.
pub type DatasetOpener<'o> = &'o dyn Fn(u32, &DatasetDef) -> Result<(), HostError>;

/// Looks into a script (path, whether it is a transform) for what it holds and registers; an error
/// is what is wrong with it, in Suricata's words.
pub type ScriptInspector<'o> = &'o dyn Fn(&str, bool) -> Result<ScriptFacts, HostError>;

/// Names of bits and variables with the numbers by which a run knows them: what flows and hosts have been marked with
/// keeps its meaning when rules are loaded again.
#[derive(Clone, Debug, Default)]
pub struct CarriedNames {
    pub(crate) flowbits: Names,
    pub(crate) flowints: Names,
    pub(crate) xbits: Names,
    pub(crate) hostbits: Names,
    pub(crate) variables: Names,
}

impl CarriedNames {
    /// The names that a rule set knows. None: they are more than are carried on ([`CARRIED_NAMES_MAX`]).
    pub fn of_rules(set: &Ruleset) -> Option<CarriedNames> {
        let all = [&set.flowbits, &set.flowints, &set.xbits, &set.hostbits, &set.variables];
        if all.iter().any(|names| names.len() > CARRIED_NAMES_MAX) {
            return None;
        }
        let [flowbits, flowints, xbits, hostbits, variables] = all.map(Names::clone);
        Some(CarriedNames { flowbits, flowints, xbits, hostbits, variables })
    }
}

/// Settings of a load.
#[derive(Clone)]
pub struct LoadOptions<'o> {
    /// Classes, see [`crate::parse_classification`].
    pub classes: Vec<Classification>,
    /// Reference systems: short name and address prefix, see [`crate::read_references`].
    pub references: Vec<(String, String)>,
    /// Precedence of actions, first is highest.
    pub action_order: [Action; 4],
    /// Reads files that rules name; `None`: rules that need one are inert.
    pub read_file: Option<FileReader<'o>>,
    /// Makes datasets while rules are read; `None`: they are only described.
    pub open_dataset: Option<DatasetOpener<'o>>,
    /// Looks into Lua scripts; `None`: rules with scripts are inert.
    pub inspect_script: Option<ScriptInspector<'o>>,
    /// Datasets that the configuration describes.
    pub datasets: Vec<DatasetDef>,
    /// Short names of the reputation categories.
    pub reputation_categories: Vec<String>,
    /// Why there is no database of countries: rules with `geoip` are refused, and this is reported.
    pub no_geoip: Option<String>,
    /// Folder that rule-named files are relative to, when the rule file's own does not have them.
    pub rule_path: String,
    /// Names of protocols that the configuration disables.
    pub disabled_protocols: Vec<String>,
    /// Version that `requires: version` is compared with.
    pub version: (u16, u16, u16),
    /// Features that `requires: feature` may ask for.
    pub features: Vec<String>,
    /// Lua in rules is allowed (`security.lua.allow-rules`).
    pub allow_lua: bool,
    /// Rules may name datasets outside the data folder (`datasets.rules.allow-absolute-filenames`).
    pub allow_absolute_filenames: bool,
    /// Rules may write datasets (`datasets.rules.allow-write`).
    pub allow_dataset_write: bool,
    /// `detect.prefilter.default: auto`: keywords serve as prefilters without being asked.
    pub auto_prefilter: bool,
    /// Firewall mode.
    pub is_firewall: bool,
    /// Keywords that refuse the rule where they would only warn (`--strict-rule-keywords`); `all`
    /// stands for all of them.
    pub strict_keywords: Vec<String>,
    /// Names whose numbers stay: those of the rules that a run has loaded before.
    pub carried: CarriedNames,
    /// The rules that a run has loaded before: what is the same in both is shared, for memory.
    pub before: Option<&'o Ruleset>,
}

impl LoadOptions<'_> {
    /// Whether this keyword refuses the rule where it would only warn.
    pub(crate) fn is_strict(&self, keyword: &str) -> bool {
        self.strict_keywords.iter().any(|k| k == "all" || k == keyword)
    }
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions {
            classes: Vec::new(),
            references: Vec::new(),
            action_order: [Action::Pass, Action::Drop, Action::RejectSource, Action::Alert],
            read_file: None,
            open_dataset: None,
            inspect_script: None,
            datasets: Vec::new(),
            reputation_categories: Vec::new(),
            no_geoip: None,
            rule_path: String::new(),
            disabled_protocols: Vec::new(),
            version: (8, 0, 7),
            features: Vec::new(),
            allow_lua: true,
            allow_absolute_filenames: false,
            allow_dataset_write: true,
            auto_prefilter: false,
            is_firewall: false,
            strict_keywords: Vec::new(),
            carried: CarriedNames::default(),
            before: None,
        }
    }
}
