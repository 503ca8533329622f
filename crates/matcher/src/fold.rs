//! ASCII case folding of names and keys.

/// Appends the lower-case form of `bytes`.
pub(crate) fn lower(bytes: &[u8]) -> Vec<u8> {
    bytes.to_ascii_lowercase()
}
