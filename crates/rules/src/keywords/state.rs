//! Keywords on state that outlives the packet: flowbits, flow integers, xbits, hostbits,
//! reputation, tags, marks.

use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::integer::IntegerMatch;
use crate::keyword::{Setup, Value};
use crate::packet::{
    FlowbitsTest, FlowintOp, FlowintTest, FlowintValue, HostbitsTest, HostbitsTrack,
    IpReputationTest, PacketCondition, ReputationSide, ReputationTest, VariableTest, XbitsTest,
    XbitsTrack,
};
use crate::post::{BitCommand, FlowintCommand, PostMatch, Tag, TagMetric, TagScope};
use crate::signature::RuleHook;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("flowbits", flowbits),
    ("flowint", flowint),
    ("flowvar", |c, d, v| variable(c, d, v, "flowvar", "detect-flowvar")),
    ("pktvar", |c, d, v| variable(c, d, v, "pktvar", "detect-pktvar")),
    ("xbits", xbits),
    ("hostbits", hostbits),
    ("iprep", iprep),
    ("tag", tag),
    ("nfq_set_mark", nfq_set_mark),
];

/// What a bit keyword does: writes, or asks.
enum BitUse {
    Write(BitCommand),
    Ask(bool),
}

fn bit_use(word: &str) -> Option<BitUse> {
    Some(match word {
        "set" => BitUse::Write(BitCommand::Set),
        "unset" => BitUse::Write(BitCommand::Unset),
        "toggle" => BitUse::Write(BitCommand::Toggle),
        "isset" => BitUse::Ask(true),
        "isnotset" => BitUse::Ask(false),
        _ => return None,
    })
}

fn flowbits(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-flowbits";
    let (word, names) = match v.text.split_once(',') {
        Some((word, names)) => (word.trim(), Some(names.trim())),
        None => (v.text, None),
    };
    if !word.bytes().all(|b| b.is_ascii_alphabetic()) || word.is_empty() {
        let said = format!("\"{}\" is not a valid setting for flowbits.", v.text);
        return Err(Refusal::new(WHO, said));
    }
    if word == "noalert" {
        if names.is_some() {
            return Err(Refusal::silent("`flowbits:noalert` takes no name"));
        }
        d.noalert = true;
        return Ok(());
    }
    let Some(used) = bit_use(word) else {
        let said = format!("ERROR: flowbits action \"{word}\" is not supported.");
        return Err(Refusal::new(WHO, said));
    };
    let Some(names) = names.filter(|n| !n.is_empty()) else {
        return Err(Refusal::silent(format!("`flowbits:{word}` needs a name")));
    };
    let bad = || {
        let said = format!("\"{}\" is not a valid setting for flowbits.", v.text);
        Refusal::new(WHO, said).because("a name has no white space")
    };
    let is_name = |name: &str| !name.contains([' ', '\t']);
    match used {
        BitUse::Ask(isset) => {
            let mut bits: Vec<u32> = Vec::new();
            // An empty name is a bit that is never set (Suricata 8.0.7).
            for name in names.split('|').map(str::trim) {
                if !is_name(name) {
                    return Err(bad());
                }
                let bit = c.set.flowbits.intern(name);
                if !bits.contains(&bit) {
                    bits.push(bit);
                }
            }
            let test = FlowbitsTest { isset, bits: bits.into() };
            d.push_packet("flowbits", PacketCondition::Flowbits(test));
        }
        // With `|` it is one name that no rule can ask for (Suricata 8.0.7).
        BitUse::Write(_) if names.contains('|') => {}
        BitUse::Write(command) => {
            if !is_name(names) {
                return Err(bad());
            }
            let bit = c.set.flowbits.intern(names);
            d.post.push(PostMatch::Flowbits { bit, command });
        }
    }
    Ok(())
}

fn flowint(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bad = || {
        let said = format!("\"{}\" is not a valid setting for flowint(ret = -1).", v.text);
        Refusal::new("detect-flowint", said).because("`flowint: name, operator, value`")
    };
    let parts: Vec<&str> = v.text.split(',').map(str::trim).collect();
    let (name, op, value) = match parts.as_slice() {
        [name, op] => (*name, *op, None),
        [name, op, value] => (*name, *op, Some(*value)),
        _ => return Err(bad()),
    };
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if name.len() < 2 || !begins || !name.bytes().all(is_name_byte) {
        return Err(bad());
    }
    let variable = c.set.flowints.intern(name);
    let asks = match op {
        "<" => Some(FlowintOp::Less),
        "<=" => Some(FlowintOp::LessOrEqual),
        "==" => Some(FlowintOp::Equal),
        "!=" => Some(FlowintOp::Differs),
        ">=" => Some(FlowintOp::GreaterOrEqual),
        ">" => Some(FlowintOp::Greater),
        "isset" => Some(FlowintOp::IsSet),
        "notset" | "isnotset" => Some(FlowintOp::IsNotSet),
        _ => None,
    };
    let value = match value {
        Some(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            FlowintValue::Number(text.parse().map_err(|_| bad())?)
        }
        Some(text) if text.starts_with('-') => return Err(bad()),
        Some(text) if text.bytes().all(is_name_byte) && !text.is_empty() => {
            FlowintValue::Variable(c.set.flowints.intern(text))
        }
        None if matches!(asks, Some(FlowintOp::IsSet | FlowintOp::IsNotSet)) => {
            FlowintValue::Number(0)
        }
        Some(_) | None => return Err(bad()),
    };
    if let Some(op) = asks {
        let test = FlowintTest { variable, op, value };
        d.push_packet("flowint", PacketCondition::Flowint(test));
        return Ok(());
    }
    let command = match op {
        "=" => FlowintCommand::Set,
        "+" => FlowintCommand::Add,
        "-" => FlowintCommand::Subtract,
        _ => return Err(bad()),
    };
    d.post.push(PostMatch::Flowint { variable, command, value });
    Ok(())
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/')
}

/// `flowvar` and `pktvar`: name and what its captured text must hold, quoted or not. Suricata has
/// neither white space nor negation here.
fn variable(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    v: Value<'_>,
    keyword: &'static str,
    who: &'static str,
) -> Checked<()> {
    let Some((name, value)) = v.text.split_once(',') else {
        let said = format!("\"{}\" is not a valid setting for {keyword}.", v.text);
        return Err(Refusal::new(who, said));
    };
    let plain = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
    let test = VariableTest {
        of_packet: keyword == "pktvar",
        name: c.set.variables.intern(name),
        value: super::content::decode(plain)?,
    };
    d.push_packet(keyword, PacketCondition::Variable(test));
    Ok(())
}

/// Seconds an xbit lives unless written: Suricata's default.
const XBIT_EXPIRE_S: u32 = 30;

fn xbits(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-xbits";
    let mut parts = v.text.split(',').map(str::trim);
    let word = parts.next().unwrap_or("");
    if word == "noalert" {
        d.noalert = true;
        return Ok(());
    }
    let Some(used) = bit_use(word) else {
        return Err(Refusal::new(WHO, format!("Invalid xbits cmd: {word}")));
    };
    let bad = || {
        let said = format!("\"{}\" is not a valid setting for xbits.", v.text);
        Refusal::new(WHO, said).because("`xbits:set, name, track ip_src, expire N`")
    };
    let name = parts.next().filter(|n| !n.is_empty() && !n.contains(char::is_whitespace));
    let name = name.ok_or_else(bad)?;
    let track = parts.next().ok_or_else(bad)?;
    let track = match track.strip_prefix("track").map(str::trim) {
        Some("ip_src") => XbitsTrack::Source,
        Some("ip_dst") => XbitsTrack::Destination,
        Some("ip_pair") => XbitsTrack::Pair,
        Some("tx") => XbitsTrack::Transaction,
        _ => return Err(bad()),
    };
    if track == XbitsTrack::Transaction && !matches!(d.hook, Some(RuleHook::App { .. })) {
        return Err(Refusal::new(WHO, "tx xbits require an explicit rule hook"));
    }
    let expire_s = match parts.next() {
        None => XBIT_EXPIRE_S,
        Some(text) => {
            let n = text.strip_prefix("expire").map(str::trim).and_then(|n| n.parse().ok());
            match n {
                Some(0) => return Err(Refusal::new(WHO, "expire must be bigger than 0")),
                Some(n) => n,
                None => return Err(bad()),
            }
        }
    };
    if parts.next().is_some() {
        return Err(bad());
    }
    let bit = c.set.xbits.intern(name);
    match used {
        BitUse::Ask(isset) => {
            d.push_packet("xbits", PacketCondition::Xbits(XbitsTest { bit, isset, track }));
        }
        BitUse::Write(command) => {
            d.post.push(PostMatch::Xbits { bit, command, track, expire_s });
        }
    }
    Ok(())
}

/// Seconds a hostbit lives unless written: Suricata's default.
const HOSTBIT_EXPIRE_S: u32 = 300;

fn hostbits(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-hostbits";
    let bad = || {
        let said = format!("\"{}\" is not a valid setting for hostbits.", v.text);
        Refusal::new(WHO, said)
    };
    let mut parts = v.text.split(',').map(str::trim);
    let word = parts.next().unwrap_or("");
    if !word.bytes().all(|b| b.is_ascii_alphabetic()) || word.is_empty() {
        return Err(bad());
    }
    if word == "noalert" {
        d.noalert = true;
        return Ok(());
    }
    let Some(used) = bit_use(word) else {
        let said = format!("ERROR: flowbits action \"{word}\" is not supported.");
        return Err(Refusal::new(WHO, said));
    };
    let name = parts.next().filter(|n| !n.is_empty() && !n.contains(char::is_whitespace));
    let name = name.ok_or_else(bad)?;
    let track = match (parts.next(), parts.next()) {
        (None | Some("src"), None) => HostbitsTrack::Source,
        (Some("dst"), None) => HostbitsTrack::Destination,
        (Some("both"), None) => HostbitsTrack::Both,
        (_, _) => return Err(bad()),
    };
    let bit = c.set.hostbits.intern(name);
    match used {
        BitUse::Ask(isset) => {
            d.push_packet(
                "hostbits",
                PacketCondition::Hostbits(HostbitsTest { bit, isset, track }),
            );
        }
        BitUse::Write(command) => {
            d.post.push(PostMatch::Hostbits { bit, command, track, expire_s: HOSTBIT_EXPIRE_S });
        }
    }
    Ok(())
}

fn iprep(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-iprep";
    let bad = || {
        let said = format!("\"{}\" is not a valid setting for iprep", v.text);
        Refusal::new(WHO, said)
    };
    let parts: Vec<&str> = v.text.split(',').map(str::trim).collect();
    let (side, category, test) = match parts.as_slice() {
        [side, category, word] => {
            let test = match *word {
                "isset" => ReputationTest::IsSet,
                "isnotset" => ReputationTest::IsNotSet,
                _ => return Err(bad()),
            };
            (*side, *category, test)
        }
        [side, category, op, score] => {
            let score: u64 = score.parse::<u8>().map_err(|_| bad())?.into();
            // Suricata 8.0.7 passes over what follows the sign: `<>` is `<`, `=>` is `=`.
            let score = match op.as_bytes() {
                [b'<', b'=', ..] => IntegerMatch::LessOrEqual(score),
                [b'>', b'=', ..] => IntegerMatch::GreaterOrEqual(score),
                [b'<', ..] => IntegerMatch::Less(score),
                [b'>', ..] => IntegerMatch::Greater(score),
                [b'!', ..] => IntegerMatch::Differs(score),
                [b'=', ..] => IntegerMatch::Equal(score),
                _ => return Err(bad()),
            };
            (*side, *category, ReputationTest::Score(score))
        }
        _ => return Err(bad()),
    };
    let side = match side {
        "any" => ReputationSide::Any,
        "src" => ReputationSide::Source,
        "dst" => ReputationSide::Destination,
        "both" => ReputationSide::Both,
        _ => return Err(bad()),
    };
    let known = &c.options.reputation_categories;
    if !known.iter().any(|k| k == category) {
        if known.is_empty() {
            return Err(bad().because("no reputation categories are configured"));
        }
        let said = format!("unknown iprep category \"{category}\"");
        return Err(Refusal::new(WHO, said));
    }
    // All of them: an address that is listed has a score in each category.
    for known in &c.options.reputation_categories {
        c.set.categories.intern(known);
    }
    let category = c.set.categories.intern(category);
    d.push_packet(
        "iprep",
        PacketCondition::IpReputation(IpReputationTest { side, category, test }),
    );
    Ok(())
}

fn tag(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-tag";
    let bad = || {
        let said = format!("parse error, ret -1, string {}", v.text);
        Refusal::new(WHO, said)
            .because("`tag:session, N, packets` or `tag:host, N, seconds, src`; also bytes and dst")
    };
    let parts: Vec<&str> = v.text.split(',').map(str::trim).collect();
    let (kind, rest) = parts.split_first().ok_or_else(bad)?;
    let side = match (rest.get(2), rest.get(3)) {
        (None, _) => None,
        (Some(&"src"), None) => Some(TagScope::HostSource),
        (Some(&"dst"), None) => Some(TagScope::HostDestination),
        (Some(_), _) => return Err(bad()),
    };
    let scope = match *kind {
        "session" => TagScope::Session,
        "host" => side.unwrap_or(TagScope::HostDestination),
        _ => return Err(bad()),
    };
    let count = match rest.first() {
        Some(n) if n.starts_with('+') => return Err(bad()),
        Some(n) => n.parse().map_err(|_| bad())?,
        // Suricata's default: ten packets
        None => 10,
    };
    let metric = match rest.get(1) {
        None if !rest.is_empty() => return Err(bad()),
        None | Some(&"packets") => TagMetric::Packets,
        Some(&"seconds") => TagMetric::Seconds,
        Some(&"bytes") => TagMetric::Bytes,
        Some(_) => return Err(bad()),
    };
    d.post.push(PostMatch::Tag(Tag { scope, count, metric }));
    Ok(())
}

fn nfq_set_mark(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bad = || {
        let said = format!("pcre_exec parse error, ret -1, string {}", v.text);
        Refusal::new("detect-mark", said)
            .because("`nfq_set_mark:MARK/MASK`, each a number or 0xHEX")
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let (mark, mask) = v.text.split_once('/').ok_or_else(bad)?;
    let (mark, mask) = (number(mark.trim()).ok_or_else(bad)?, number(mask.trim()).ok_or_else(bad)?);
    d.post.push(PostMatch::NfqSetMark { mark, mask });
    Ok(())
}
