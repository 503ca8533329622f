//! Names of hosts: what is below what, and which part is registered.

/// Whether a name is below another or is it.
pub(crate) fn is_below(name: &[u8], parent: &[u8]) -> bool {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let Some(start) = name.len().checked_sub(parent.len()) else { return false };
    name.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(parent))
        && (start == 0 || name.get(start - 1) == Some(&b'.'))
}

/// The part of a name that is registered, by the list of public suffixes.
#[cfg(feature = "public-suffixes")]
pub(crate) fn registered(name: &[u8]) -> Option<&[u8]> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    psl::domain(name).map(|d| d.as_bytes())
}

/// The part of a name that is registered: its last two labels, where there is no list of public suffixes.
#[cfg(not(feature = "public-suffixes"))]
pub(crate) fn registered(name: &[u8]) -> Option<&[u8]> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let last = name.iter().rposition(|b| *b == b'.')?;
    let before = name.get(..last)?.iter().rposition(|b| *b == b'.').map_or(0, |at| at + 1);
    name.get(before..).filter(|domain| !domain.starts_with(b".") && !domain.ends_with(b"."))
}
