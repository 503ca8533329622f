//! Why a command is refused, in Suricata's words where it has some.

use crate::packets::LoadError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a command is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// There is no such command.
    #[error("Unknown command")]
    UnknownCommand,
    /// An argument is not there.
    #[error("the argument {name} is missing")]
    NoArgument { name: String },
    /// Workers take no more tasks.
    #[error("workers have too much to do")]
    Busy,
    /// Workers did not answer.
    #[error("no answer in time")]
    TooLate,
    /// The configuration has no such variable.
    #[error("Unable to get value")]
    NoVariable,
    /// Rules could not be loaded.
    #[error("{0}")]
    Load(#[from] Arc<LoadError>),
    /// Rules are being loaded.
    #[error("Reload already in progress")]
    Loading,
    /// There are no tenants.
    #[error("multi-tenant support not enabled")]
    NoTenants,
    /// No interface lets flows bypass.
    #[error("No interface using bypass")]
    NoBypass,
    /// A text is no address.
    #[error("invalid address string")]
    NoAddress,
    /// A text is no number.
    #[error("expire: not a number")]
    NoNumber,
    /// A host does not have the bit.
    #[error("hostbit not found")]
    NoHostBit,
    /// Nothing is known of a host.
    #[error("host not found")]
    NoHost,
    /// A limit has no such name.
    #[error("Memcap value not found. Use 'memcap-list' to show all")]
    NoMemcap,
    /// The name of a limit is missing.
    #[error("memcap key is not a string")]
    NoMemcapName,
    /// The size of a limit is missing.
    #[error("memcap value is not a string")]
    NoMemcapSize,
    /// The size of a limit is none.
    #[error("error parsing memcap specified, value not changed")]
    WrongMemcap,
    /// A limit must be one.
    #[error("Unlimited value is not allowed for '{name}'")]
    Unlimited { name: String },
    /// More memory is in use than a limit would allow.
    #[error("memcap value specified for '{name}' is less than the memory in use: {used}")]
    MemoryInUse { name: String, used: String },
    /// There is no memory to limit yet.
    #[error("the run has not begun yet")]
    NotBegun,
    /// There is no such dataset.
    #[error("set not found or wrong type")]
    NoDataset,
    /// Datasets have no such type.
    #[error("unknown settype")]
    NoDatasetType,
    /// A dataset does not take the value.
    #[error("failed to add data")]
    NotAdded,
    /// A dataset did not have the value to remove.
    #[error("failed to remove data")]
    NotRemoved,
    /// A dataset does not have the value.
    #[error("item not found in set")]
    NoItem,
    /// A dataset can't be saved.
    #[error("{}: cannot be written: {source}", .path.display())]
    NotSaved { path: PathBuf, source: io::Error },
    /// There is no such flow.
    #[error("Not found")]
    NoFlow,
    /// There is no such interface.
    #[error("Iface does not exist")]
    NoInterface,
}
