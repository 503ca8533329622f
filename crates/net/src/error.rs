//! Errors in the engine's configuration, scripts and databases.

use gabion_proto::SettingsError;
use gabion_rules::FirewallActionError;
use gabion_rules::compiled::ActionScope;

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A protocol refuses its part.
    #[error("{0}")]
    Protocol(#[from] SettingsError),
    /// A policy of the firewall without an action.
    #[error("{path}: policy is set but empty")]
    EmptyPolicy {
        /// Its path in the configuration.
        path: String,
    },
    /// A policy that is not one.
    #[error("{0}")]
    Policy(#[from] FirewallActionError),
    /// `config` as a policy.
    #[error("{path}: 'config' is not a valid default policy action")]
    ConfigPolicy {
        /// Its path in the configuration.
        path: String,
    },
    /// A policy whose scope does not fit its table.
    #[error(
        "{path}: action scope (\"{}\") is not valid. Valid scopes: {}",
        scope_name(*scope),
        scope_names(valid)
    )]
    PolicyScope {
        /// Its path in the configuration.
        path: String,
        /// Its scope.
        scope: ActionScope,
        /// Those that fit.
        valid: Vec<ActionScope>,
    },
}

/// A scope as rules write it.
pub(crate) fn scope_name(scope: ActionScope) -> &'static str {
    match scope {
        ActionScope::Packet => "packet",
        ActionScope::Flow | ActionScope::FlowIfStateful => "flow",
        ActionScope::Hook => "hook",
        ActionScope::Transaction => "tx",
    }
}

fn scope_names(scopes: &[ActionScope]) -> String {
    let names: Vec<&str> = scopes.iter().map(|s| scope_name(*s)).collect();
    names.join("/")
}

/// A script that cannot be used, in Suricata's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// A step of loading it failed.
    #[error("couldn't {step}: {why}")]
    Step {
        /// The step.
        step: &'static str,
        /// Lua's message.
        why: String,
    },
    /// It cannot be loaded.
    #[error("{0}")]
    Load(String),
    /// It lacks a function.
    #[error("no {0} function in script")]
    NoFunction(&'static str),
    /// `init` returned something else than a table.
    #[error("init function in script should return table, returned is not table")]
    InitWithoutTable,
    /// `init` asks for data for which rules have hooks.
    #[error("data type {0} no longer supported, use rule hooks")]
    OldNeed(String),
    /// `init` asks for unknown data.
    #[error("unsupported data type {0}")]
    UnknownNeed(String),
    /// `init` of an output asks for an unknown stream.
    #[error("unknown streaming: {0}")]
    UnknownStream(String),
    /// `init` of an output asks for a protocol that has no such output.
    #[error("unsupported protocol {0}")]
    UnknownProtocol(String),
    /// `init` of an output asks for an unknown type.
    #[error("unknown type: {0}")]
    UnknownType(String),
    /// `init` of an output asks for nothing.
    #[error("init function does not say what the script logs")]
    NoType,
}

/// A database of countries that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CountriesError(#[from] maxminddb::MaxMindDbError);
