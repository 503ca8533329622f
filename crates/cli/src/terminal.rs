//! The terminal that standard output may be.

use std::io::IsTerminal;

/// Columns of the terminal that standard output is, if it is one.
pub(crate) fn width() -> Option<u16> {
    std::io::stdout().is_terminal().then(|| {
        let stated = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        stated.or_else(gabion_outputs::table::terminal_columns).unwrap_or(80)
    })
}
