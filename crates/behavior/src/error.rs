//! Errors that the engine returns to its caller.

/// Why a run cannot continue from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Windows or profiles would mean something else.
    #[error(
        "it was written with another time_window_width, only_one_tw, analysis_direction or client_ips: use those \
         again, or begin again with --overwrite"
    )]
    OtherSettings,
    /// It is whole, but not of this form.
    #[error(
        "it was written by another version of Gabion: continue from it with that version, or begin again with \
         --overwrite, or in another folder (-l)"
    )]
    OtherVersion,
}
