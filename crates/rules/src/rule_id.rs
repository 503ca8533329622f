//! The id of a rule as people write it: the number of the signature, with that of its generator if it is not 1.

/// The signature's id, with the generator before it when it is not the usual one.
pub fn format_rule_id(gid: u32, sid: u32) -> String {
    if gid == 1 { sid.to_string() } else { format!("{gid}:{sid}") }
}

/// Generator and signature of an id, `SID` or `GID:SID`.
pub fn parse_rule_id(text: &str) -> Option<(u32, u32)> {
    match text.split_once(':') {
        Some((gid, sid)) => Some((gid.parse().ok()?, sid.parse().ok()?)),
        None => Some((1, text.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unusual_generators_are_shown() {
        assert_eq!(format_rule_id(1, 5), "5");
        assert_eq!(format_rule_id(3, 5), "3:5");
    }

    #[test]
    fn ids_have_a_generator_or_not() {
        assert_eq!(parse_rule_id("5"), Some((1, 5)));
        assert_eq!(parse_rule_id("3:5"), Some((3, 5)));
        assert_eq!(parse_rule_id("x"), None);
    }
}
