//! What is wrong with a protocol's part of the configuration.

/// What is wrong with it; keys are below the protocol's own node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A value that the key does not take.
    #[error("invalid value for {key}: {value:?}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// An unknown way to continue with encrypted sessions.
    #[error("encryption-handling: '{value}' is not known")]
    Encryption {
        /// The value.
        value: String,
    },
    /// No address and no network.
    #[error("not an address: {text:?}")]
    Address {
        /// The text.
        text: String,
    },
    /// A fault below a node.
    #[error("{node}: {fault}")]
    Below {
        /// The node.
        node: String,
        /// The fault.
        fault: Box<SettingsError>,
    },
}

impl SettingsError {
    /// The fault with the node that it is below.
    pub(crate) fn below(self, node: impl Into<String>) -> SettingsError {
        SettingsError::Below { node: node.into(), fault: Box::new(self) }
    }
}
