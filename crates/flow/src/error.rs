//! What is wrong with a configuration of flows, streams or defragmentation.

/// A value of the configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The value of a key.
    #[error("{key}: \"{value}\" cannot be used here")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// A list of hosts with the name of no policy.
    #[error("host-os-policy.{0}: no such policy")]
    UnknownPolicy(String),
    /// Something else in a list of hosts.
    #[error("host-os-policy.{policy}: \"{text}\" is not a network")]
    NotANetwork {
        /// The policy whose list it is.
        policy: String,
        /// What stands there.
        text: String,
    },
}

/// What reads a configuration.
pub(crate) type Result<T> = std::result::Result<T, ConfigError>;

/// A value that cannot be used.
pub(crate) fn refused(key: &str, value: &str) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), value: value.to_owned() }
}
