//! Texts from outside, as findings repeat them.

use crate::limits::{TEXT_MAX, reached};

/// A text from outside, bounded, with what is no text replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    if bytes.len() > TEXT_MAX {
        reached::TEXT_MAX.count();
    }
    let cut = bytes.get(..bytes.len().min(TEXT_MAX)).unwrap_or_default();
    // Nearly all are what they seem to be.
    if cut.iter().all(|b| (0x20..0x7f).contains(b)) {
        return String::from_utf8(cut.to_vec()).unwrap_or_default();
    }
    let mut text = String::from_utf8_lossy(cut).into_owned();
    text.retain(|c| !c.is_control());
    text
}
