//! Options of what carries checkpoints off the host, for `log checkpoint` and `listen`.

use clap::Args;
use gabion_intake::{PushSettings, Url};
use std::path::PathBuf;

/// Where checkpoints are carried.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PushOptions {
    /// Have each checkpoint cosigned by this C2SP witness (repeatable); sealing never waits for it
    #[arg(long, value_name = "URL")]
    pub(crate) witness: Vec<Url>,
    /// Authorities that vouch for witnesses over https [default: the system's]
    #[arg(long, value_name = "FILE", requires = "witness")]
    pub(crate) witness_ca: Option<PathBuf>,
    /// Append each checkpoint to this file of anchors, on a medium of its own (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) anchor_append: Vec<PathBuf>,
    /// Give each checkpoint to this command of the shell, on its standard input
    #[arg(long, value_name = "COMMAND", value_parser = crate::values::text())]
    pub(crate) anchor_cmd: Option<String>,
}

impl PushOptions {
    /// The same as settings.
    pub(crate) fn settings(&self) -> PushSettings {
        PushSettings {
            witnesses: self.witness.clone(),
            authorities: self.witness_ca.clone(),
            anchor_files: self.anchor_append.clone(),
            command: self.anchor_cmd.clone(),
        }
    }
}
