//! Ids that findings have themselves, as members of their JSON.

/// Whether a finding has this id as a member of its own: `id` at the end of events, `ID` in the head of IDMEFv2. Text of
/// others can't look so, as its quotation marks are escaped.
pub(crate) fn has_own_id(bytes: &[u8], id: &str) -> bool {
    const HEAD: &[u8] = b",\"ID\":\"";
    /// Bytes in which the head of IDMEFv2 has its `ID`.
    const HEAD_BYTES: usize = 512;
    if id.is_empty() {
        return false;
    }
    let end = bytes.strip_suffix(b"\"}").and_then(|rest| rest.strip_suffix(id.as_bytes()));
    if end.is_some_and(|rest| rest.ends_with(b",\"id\":\"")) {
        return true;
    }
    if !bytes.starts_with(b"{\"Version\":\"") {
        return false;
    }
    let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes);
    let at = head.windows(HEAD.len()).position(|part| part == HEAD);
    let value = at.and_then(|at| bytes.get(at + HEAD.len()..));
    value.is_some_and(|value| {
        value.strip_prefix(id.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'"'))
    })
}

#[cfg(test)]
mod tests {
    use super::has_own_id;

    #[test]
    fn a_finding_is_known_by_the_id_that_it_has_itself() {
        let id = "0a1b2c3d-0000-8000-8000-000000000001";
        let event = format!("{{\"event\":\"end\",\"line\":\"x\",\"id\":\"{id}\"}}");
        assert!(has_own_id(event.as_bytes(), id));
        let alert =
            format!("{{\"Version\":\"2.0.3\",\"Status\":\"Event\",\"ID\":\"{id}\",\"Note\":\"\"}}");
        assert!(has_own_id(alert.as_bytes(), id));
        assert!(!has_own_id(alert.as_bytes(), &id[..35]), "the whole id");
        // What a line quotes is escaped, and what stands inside it is not its own id.
        let quoted = format!("{{\"line\":\",\\\"id\\\":\\\"{id}\\\"\"}}");
        let inside = format!("{{\"of\":{{\"a\":1,\"id\":\"{id}\"}},\"id\":\"other\"}}");
        let other =
            format!("{{\"Version\":\"2\",\"ID\":\"other\",\"Ref\":[{{\"a\":1,\"ID\":\"{id}\"}}]}}");
        for line in [quoted, inside, other, "{}".to_owned(), String::new()] {
            assert!(!has_own_id(line.as_bytes(), id), "{line}");
        }
        assert!(!has_own_id(b"{\"a\":1,\"id\":\"\"}", ""));
    }
}
