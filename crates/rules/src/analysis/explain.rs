//! How a rule is inspected, or why it never is, in lines for people.

use super::{Report, costly};
use crate::content::{BufferCondition, Content, ContentFlags, Operand};
use crate::packet::PacketCondition;
use crate::rule_id::format_rule_id;
use crate::ruleset::Ruleset;
use crate::signature::{
    ActionScope, BufferInspection, BufferRef, EngineRun, RuleType, Signature, SignatureFlags,
};
use gabion_record::Direction;
use gabion_record::applayer::Catalog;
use std::fmt::Write as _;

/// How a rule is inspected: its place, its action, what makes it a candidate, and each of its conditions, a line each
/// after a line with its id and message.
pub fn explain_rule(r: &Report<'_>, s: &Signature) -> String {
    let mut out = String::new();
    explain(r, s, &mut out);
    out
}

fn explain(r: &Report<'_>, s: &Signature, out: &mut String) {
    let set = r.set;
    let _ = writeln!(out, "{} rev {}: {}", format_rule_id(s.gid, s.sid), s.rev, set.msg(s));
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<14}{text}");
    };
    line("defined in", set.place(s));
    line("rule", set.text(s.raw).to_string());
    if s.header.swapped {
        line("side", "the half of <> whose sides are swapped".to_string());
    }
    if let Some(keyword) = s.inert {
        line("never matches", format!("this sensor does not have {keyword}"));
    }
    for n in r.flowbits.never_set(set) {
        if asks_for(s, n.bit) {
            let bit = set.flowbits.get(n.bit);
            line("never matches", format!("no rule sets the flowbit {bit} it asks for"));
        }
    }
    line("action", format!("{} {}", s.action.name(), reach(s)));
    line("protocol", set.header_protocol(s).to_string());
    line("priority", format!("{} ({})", s.priority, or_none(set.category(s))));
    line("order", format!("{} of {} rules", s.index + 1, set.signatures.len()));
    line("type", format!("{}: {}", s.kind.name(), when(s.kind)));
    line("direction", directions(s));
    line("chosen by", chosen_by(r, s));
    for c in s.packet.iter() {
        line("packet", c.keyword().to_string());
    }
    for (at, b) in s.buffers.iter().enumerate() {
        line("buffer", buffer(r, s, b, at));
        for c in &b.conditions {
            line("", condition(set, c));
        }
    }
    for t in &s.tx {
        line("transaction", t.keyword.to_string());
    }
    for (name, t) in [
        ("threshold", &s.threshold),
        ("filter", &s.detection_filter),
        ("rate filter", &s.rate_filter),
    ] {
        if let Some(t) = t {
            line(name, format!("{:?}, {:?}, {} in {} s", t.kind, t.track, t.count, t.seconds));
        }
    }
    if !s.suppressions.is_empty() {
        line("suppressed", format!("by {} entries of the threshold file", s.suppressions.len()));
    }
}

fn asks_for(s: &Signature, bit: u32) -> bool {
    s.packet
        .iter()
        .any(|c| matches!(c, PacketCondition::Flowbits(t) if t.isset && t.bits.contains(&bit)))
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "no class" } else { text }
}

fn reach(s: &Signature) -> &'static str {
    match s.scope() {
        ActionScope::Packet => "(the packet)",
        ActionScope::Flow => "(the flow)",
        ActionScope::FlowIfStateful => "(the flow if the stream matched, else the packet)",
        ActionScope::Hook => "(this hook)",
        ActionScope::Transaction => "(the transaction)",
    }
}

/// When rules of that type are inspected.
fn when(kind: RuleType) -> &'static str {
    match kind {
        RuleType::NotSet => "never",
        RuleType::IpOnly => "once per flow and direction, by addresses alone",
        RuleType::LikeIpOnly => "every packet, by addresses alone",
        RuleType::PdOnly => "once per direction, when the protocol becomes known",
        RuleType::DeOnly => "packets with that decoder event",
        RuleType::Pkt => "every packet that fits the header",
        RuleType::PktStream => "packets and reassembled stream",
        RuleType::Stream => "reassembled stream",
        RuleType::AppLayer => "every packet of a flow once its protocol is known",
        RuleType::AppTx => "transactions, when their buffers are complete",
    }
}

fn directions(s: &Signature) -> String {
    let names: Vec<&str> =
        Direction::BOTH.into_iter().filter(|d| s.inspects(*d)).map(Direction::name).collect();
    names.join(", ")
}

/// What makes the rule a candidate.
fn chosen_by(r: &Report<'_>, s: &Signature) -> String {
    if let Some((b, c)) = s.fast_buffer().zip(s.fast_content()) {
        let pattern = quoted(c.fast_pattern_bytes());
        return format!("fast pattern {pattern} in {}", buffer_name(r.catalog, r.set, b));
    }
    if let Some(p) = s.prefilter.and_then(|n| s.packet.get(usize::from(n))) {
        return format!("prefilter {}", p.keyword());
    }
    if costly(r.set).any(|c| c.index == s.index) {
        return "nothing: it is tried wherever its header fits (costly)".to_string();
    }
    if s.flags.has(SignatureFlags::ENGINE_EVENT) {
        return "its event".to_string();
    }
    "its type".to_string()
}

fn buffer_name(catalog: &Catalog, set: &Ruleset, b: &BufferInspection) -> String {
    let mut name = match b.buffer {
        BufferRef::Payload => "payload".to_string(),
        BufferRef::Packet(p) => p.name().to_string(),
        BufferRef::App(id) => catalog.buffer(id).map_or("?", |b| b.def.name).to_string(),
        BufferRef::Frame(n) => set.frames.get(usize::from(n)).map_or("?", |f| &f.name).to_string(),
    };
    for t in set.chains.get(usize::from(b.chain.0)).map_or(&[][..], |c| c) {
        let shown = format!("{t:?}");
        let word = shown.split([' ', '(', '{']).next().unwrap_or("");
        name.push_str(" | ");
        name.push_str(&snake(word));
    }
    name
}

/// `StripWhitespace` as rules write it: `strip_whitespace`.
fn snake(word: &str) -> String {
    let mut out = String::new();
    for c in word.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    if out == "dot_prefix" { "dotprefix".to_string() } else { out }
}

fn buffer(r: &Report<'_>, s: &Signature, b: &BufferInspection, at: usize) -> String {
    let name = buffer_name(r.catalog, r.set, b);
    let mut at_states: Vec<String> = Vec::new();
    for e in s.engines.iter().filter(|e| e.run == EngineRun::Buffer(at as u16)) {
        let states = r.catalog.table(e.proto).map_or(&[][..], |t| t.states(e.direction));
        let state = states.get(usize::from(e.progress)).copied().unwrap_or("start");
        let proto = r.catalog.table(e.proto).map_or("any", |t| t.name);
        at_states.push(format!("{proto} {} at {state}", e.direction.name()));
    }
    if at_states.is_empty() { name } else { format!("{name} ({})", at_states.join("; ")) }
}

fn condition(set: &Ruleset, c: &BufferCondition) -> String {
    match c {
        BufferCondition::Content(c) => content(c),
        BufferCondition::Pcre(p) => {
            let not = if p.negated { "not " } else { "" };
            let relative = if p.relative { " relative" } else { "" };
            format!("{not}pcre /{}/{relative}", set.text(p.pattern))
        }
        other => other.keyword().to_string(),
    }
}

fn content(c: &Content) -> String {
    let mut text = String::new();
    if c.is_negated() {
        text.push_str("not ");
    }
    text.push_str("content ");
    text.push_str(&quoted(&c.bytes));
    let on = |flag: ContentFlags| c.flags.has(flag);
    for (flag, word) in [
        (ContentFlags::NOCASE, "nocase"),
        (ContentFlags::STARTS_WITH, "startswith"),
        (ContentFlags::ENDS_WITH, "endswith"),
    ] {
        if on(flag) {
            let _ = write!(text, " {word}");
        }
    }
    if on(ContentFlags::STARTS_WITH) {
        return text;
    }
    for (word, value) in [
        ("offset", &c.offset),
        ("depth", &c.depth),
        ("distance", &c.distance),
        ("within", &c.within),
    ] {
        match value {
            Some(Operand::Number(n)) => {
                let _ = write!(text, " {word}:{n}");
            }
            Some(Operand::Variable(_)) => {
                let _ = write!(text, " {word}:(variable)");
            }
            None => {}
        }
    }
    text
}

/// Bytes as a rule writes them.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    let mut in_hex = false;
    for b in bytes {
        let plain = (0x20..0x7f).contains(b) && !b"|\";\\:".contains(b);
        if plain == in_hex {
            text.push('|');
            in_hex = !plain;
        } else if in_hex {
            text.push(' ');
        }
        if plain {
            text.push(char::from(*b))
        } else {
            let _ = write!(text, "{b:02x}");
        }
    }
    if in_hex {
        text.push('|');
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_in_rules() {
        for (bytes, text) in [
            (&b"GET /"[..], "\"GET /\""),
            (b"a\x00\x01b|", "\"a|00 01|b|7c|\""),
            (b"\xff", "\"|ff|\""),
            (b"", "\"\""),
        ] {
            assert_eq!(quoted(bytes), text);
        }
    }
}
