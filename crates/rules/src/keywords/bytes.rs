//! `byte_test`, `byte_jump`, `byte_extract`, `byte_math`, `isdataat`, `entropy`, `asn1`.

use crate::compiler::Compiler;
use crate::content::{
    Asn1, BufferCondition, ByteExtract, ByteJump, ByteMath, ByteOp, ByteOrder, ByteTest,
    ContentFlags, EntropyOp, EntropyTest, IsDataAt, JumpFrom, MathOp, Operand, TextBase,
};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::keyword::{Setup, Value};
use crate::limits::BYTE_VARIABLES_MAX;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("byte_test", byte_test),
    ("byte_jump", byte_jump),
    ("byte_extract", byte_extract),
    ("byte_math", byte_math),
    ("isdataat", isdataat),
    ("entropy", entropy),
    ("asn1", asn1),
];

/// Options that the byte keywords share.
#[derive(Default)]
struct Shared {
    order: ByteOrder,
    is_dce: bool,
    is_big_written: bool,
    is_little_written: bool,
    is_string: bool,
    base: Option<TextBase>,
    relative: bool,
    bitmask: Option<(u32, u8)>,
}

impl Shared {
    /// Takes an option; false when it is none of these.
    fn take_word(&mut self, word: &str) -> bool {
        match word {
            "relative" => self.relative = true,
            "big" => {
                self.order = ByteOrder::Big;
                self.is_big_written = true;
            }
            "little" => {
                self.order = ByteOrder::Little;
                self.is_little_written = true;
            }
            "dce" => {
                self.order = ByteOrder::Dce;
                self.is_dce = true;
            }
            "string" => self.is_string = true,
            "hex" => self.base = Some(TextBase::Hex),
            "dec" => self.base = Some(TextBase::Dec),
            "oct" => self.base = Some(TextBase::Oct),
            _ => {
                let mut words = word.split_whitespace();
                let (Some("bitmask"), Some(mask), None) =
                    (words.next(), words.next(), words.next())
                else {
                    return false;
                };
                // Suricata 8.0.7 passes over what follows the digits.
                let Some(mask) = leading_number(mask) else { return false };
                let Ok(mask) = u32::try_from(mask) else { return false };
                let shift = if mask == 0 { 0 } else { mask.trailing_zeros() as u8 };
                self.bitmask = Some((mask, shift));
            }
        }
        true
    }

    fn text(&self) -> Option<TextBase> {
        self.is_string.then(|| self.base.unwrap_or(TextBase::Unset))
    }
}

/// The decimal or hexadecimal number at the beginning, whatever follows it.
fn leading_number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = hex.map_or((text, 10), |hex| (hex, 16));
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    u64::from_str_radix(digits.get(..end)?, base).ok()
}

/// The same with a sign.
fn leading_signed(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(rest) => leading_number(rest).and_then(|n| i64::try_from(n).ok()).map(|n| -n),
        None => leading_number(text.strip_prefix('+').unwrap_or(text))
            .and_then(|n| i64::try_from(n).ok()),
    }
}

/// A decimal number with a sign or none.
fn decimal(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// A number in bounds, or the name of a variable.
fn operand<T>(
    d: &Draft<'_>,
    text: &str,
    convert: impl Fn(&str) -> Option<T>,
    unknown: impl Fn() -> Refusal,
    bad: impl Fn() -> Refusal,
) -> Checked<Operand<T>> {
    if is_name(text) {
        return d.visible_byte_variable(text).map(Operand::Variable).ok_or_else(unknown);
    }
    convert(text).map(Operand::Number).ok_or_else(bad)
}

fn as_i32(n: i64) -> Option<i32> {
    i32::try_from(n).ok()
}

/// Whether an offset is one that Suricata takes.
fn in_anchor_bounds(n: &i32) -> bool {
    n.abs() <= 65_535
}

/// What `dce` must not be combined with, and that it needs the protocol.
fn check_dce(
    c: &Compiler<'_>,
    d: &mut Draft<'_>,
    shared: &Shared,
    who: &'static str,
) -> Checked<()> {
    if !shared.is_dce {
        return Ok(());
    }
    if shared.is_string {
        return Err(Refusal::new(who, "dce can't be used with string, hex, dec, oct"));
    }
    super::app::restrict_to_owners(c, d, "dce")
}

fn byte_test<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    const WHO: &str = "detect-bytetest";
    let refuse = |said: String| Refusal::new(WHO, said);
    let parts: Vec<&str> = v.text.split(',').map(str::trim).collect();
    let [nbytes, op, value, offset, rest @ ..] = parts.as_slice() else {
        return Err(refuse(format!("parse error, ret -1, string {}", v.text)));
    };
    let unknown = |name: &str| {
        Refusal::new(WHO, format!("Unknown byte_extract var seen in byte_test - {name}"))
    };
    let mut shared = Shared::default();
    for word in rest {
        if !shared.take_word(word) {
            return Err(refuse(format!("Unknown value: \"{word}\"")));
        }
    }
    if shared.base.is_some() && !shared.is_string {
        let said = format!("Cannot use a base without \"string\": {}", v.text);
        return Err(refuse(said));
    }
    let (negated, op) = match op.strip_prefix('!') {
        Some("") => (true, "="),
        Some(rest) => (true, rest.trim()),
        None => (false, *op),
    };
    let op = match op {
        "<" => ByteOp::Less,
        ">" => ByteOp::Greater,
        "=" => ByteOp::Equal,
        "&" => ByteOp::And,
        "^" => ByteOp::Xor,
        ">=" => ByteOp::GreaterOrEqual,
        "<=" => ByteOp::LessOrEqual,
        _ => return Err(refuse("Invalid operator".into())),
    };
    let nbytes_max = if shared.is_string { 23 } else { 8 };
    let nbytes = operand(
        d,
        nbytes,
        |n| u8::try_from(decimal(n)?).ok(),
        || unknown(nbytes),
        || refuse(format!("Malformed number of bytes: {nbytes}")),
    )?;
    if let Operand::Number(n) = nbytes
        && ((n == 0 && !shared.is_string) || n > nbytes_max)
    {
        return Err(refuse(if shared.is_string {
            format!("Cannot test more than {nbytes_max} bytes with \"string\": {}", v.text)
        } else {
            format!("Cannot test more than 8 bytes without \"string\": {}", v.text)
        }));
    }
    let value = if is_name(value) {
        d.visible_byte_variable(value).map(Operand::Variable).ok_or_else(|| unknown(value))?
    } else {
        let n = leading_signed(value).map(|n| n as u64).or_else(|| leading_number(value));
        Operand::Number(n.ok_or_else(|| refuse(format!("Malformed value: {value}")))?)
    };
    let offset = operand(
        d,
        offset,
        |n| leading_signed(n).and_then(as_i32),
        || unknown(offset),
        || refuse(format!("Malformed offset: {offset}")),
    )?;
    check_dce(c, d, &shared, WHO)?;
    push(
        d,
        shared.relative,
        BufferCondition::ByteTest(Box::new(ByteTest {
            nbytes,
            op,
            negated,
            value,
            offset,
            order: shared.order,
            is_big_written: shared.is_big_written,
            text: shared.text(),
            relative: shared.relative,
            bitmask: shared.bitmask,
        })),
    )
}

fn byte_jump<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    const WHO: &str = "detect-bytejump";
    let refuse = |said: String| Refusal::new(WHO, said);
    let parts: Vec<&str> = v.text.split(',').map(str::trim).collect();
    let [nbytes, offset, rest @ ..] = parts.as_slice() else {
        return Err(refuse(format!("parse error, ret -1, string \"{}\"", v.text)));
    };
    let unknown =
        |name: &str| refuse(format!("Unknown byte_extract var seen in byte_jump - {name}"));
    let mut shared = Shared::default();
    let mut jump = ByteJump {
        nbytes: Operand::Number(0),
        offset: Operand::Number(0),
        order: ByteOrder::Big,
        is_big_written: false,
        text: None,
        relative: false,
        multiplier: 1,
        align: false,
        from: JumpFrom::Current,
        post_offset: 0,
    };
    for word in rest {
        if !word.starts_with("bitmask") && shared.take_word(word) {
            continue;
        }
        let mut words = word.split_whitespace();
        match (words.next(), words.next()) {
            (Some("align"), None) => jump.align = true,
            (Some("from_beginning"), None) => jump.from = JumpFrom::Beginning,
            (Some("from_end"), None) => jump.from = JumpFrom::End,
            (Some("multiplier"), Some(n)) => {
                let n = n.parse().ok().filter(|n| *n > 0);
                jump.multiplier = n.ok_or_else(|| refuse(format!("bad multiplier: \"{word}\"")))?;
            }
            (Some("post_offset"), Some(n)) => {
                let n = decimal(n).and_then(as_i32).filter(in_anchor_bounds);
                let said = || refuse(format!("Malformed post_offset: {}", v.text));
                jump.post_offset = n.ok_or_else(said)?;
            }
            _ => return Err(refuse(format!("Unknown option: \"{word}\""))),
        }
    }
    let nbytes_max = if shared.is_string { 23 } else { 8 };
    jump.nbytes = operand(
        d,
        nbytes,
        |n| u8::try_from(decimal(n)?).ok(),
        || unknown(nbytes),
        || refuse(format!("Malformed number of bytes: {nbytes}")),
    )?;
    if let Operand::Number(n) = jump.nbytes
        && n > nbytes_max
    {
        let said = if shared.is_string {
            format!("Cannot test more than {nbytes_max} bytes with \"string\": {}", v.text)
        } else {
            format!("Cannot test more than 8 bytes without \"string\": {}", v.text)
        };
        return Err(refuse(said));
    }
    let bad = || refuse(format!("Malformed offset: {offset}"));
    let bounded = |n: &str| decimal(n).and_then(as_i32).filter(in_anchor_bounds);
    jump.offset = operand(d, offset, bounded, || unknown(offset), bad)?;
    check_dce(c, d, &shared, WHO)?;
    jump.order = shared.order;
    jump.is_big_written = shared.is_big_written;
    jump.text = shared.text();
    jump.relative = shared.relative;
    push(d, shared.relative, BufferCondition::ByteJump(Box::new(jump)))
}

/// Gives out the number of a new byte variable; naming one again takes it over.
fn define<'t>(d: &mut Draft<'t>, name: &'t str, who: &'static str) -> Checked<u8> {
    if let Some(n) = d.byte_variable(name) {
        return Ok(n);
    }
    let n = u8::try_from(d.byte_variables.len()).unwrap_or(u8::MAX);
    if n >= BYTE_VARIABLES_MAX {
        return Err(Refusal::new(who, "too many byte variables in one rule"));
    }
    let of_payload = matches!(d.list, crate::draft::List::NotSet);
    d.byte_variables.push((name, of_payload));
    Ok(n)
}

fn byte_extract<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    const WHO: &str = "detect-byte-extract";
    let refuse = || {
        Refusal::new(WHO, "invalid byte_extract values")
            .because("`byte_extract:bytes, offset, name, options`")
    };
    // Blanks may stand before a part, and behind the last one.
    let parts: Vec<&'t str> = v.text.trim_end().split(',').map(str::trim_start).collect();
    let [nbytes, offset, name, rest @ ..] = parts.as_slice() else {
        return Err(refuse());
    };
    let name: &'t str = name.trim_end();
    let mut shared = Shared::default();
    let (mut multiplier, mut align) = (1u16, 0u8);
    for (n, word) in rest.iter().enumerate() {
        if rest.get(..n).is_some_and(|before| before.contains(word)) {
            return Err(refuse());
        }
        let mut words = word.split_whitespace();
        match (words.next(), words.next()) {
            (Some("multiplier"), Some(n)) => {
                multiplier = n.parse().ok().filter(|n| *n > 0).ok_or_else(refuse)?;
            }
            (Some("align"), Some(n)) => {
                align = n.parse().ok().filter(|n| *n == 2 || *n == 4).ok_or_else(refuse)?;
            }
            _ if !word.starts_with("bitmask") && shared.take_word(word.trim_end()) => {}
            _ => return Err(refuse()),
        }
    }
    let nbytes: u8 = nbytes.parse().map_err(|_| refuse())?;
    let nbytes_max = if shared.is_string { 23 } else { 8 };
    let has_two_orders = shared.is_big_written && shared.is_little_written;
    if nbytes > nbytes_max || !is_name(name) || has_two_orders {
        return Err(refuse());
    }
    let offset = decimal(offset).and_then(as_i32).filter(in_anchor_bounds).ok_or_else(refuse)?;
    check_dce(c, d, &shared, WHO)?;
    let variable = define(d, name, WHO)?;
    push(
        d,
        shared.relative,
        BufferCondition::ByteExtract(Box::new(ByteExtract {
            nbytes,
            offset,
            order: shared.order,
            text: shared.text(),
            relative: shared.relative,
            multiplier,
            align,
            variable,
        })),
    )
}

fn byte_math<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    const WHO: &str = "detect-bytemath";
    let refuse = || {
        Refusal::new(WHO, "invalid bytemath values")
            .because("`byte_math:bytes N, offset N, oper OP, rvalue N, result NAME, options`")
    };
    let unknown = |name: &str| {
        Refusal::new(WHO, format!("unknown byte_ keyword var seen in byte_math - {name}"))
    };
    let mut shared = Shared::default();
    let (mut nbytes, mut offset, mut op) = (None, None, None);
    let (mut rvalue, mut result): (Option<&'t str>, Option<&'t str>) = (None, None);
    for word in v.text.split(',').map(str::trim) {
        if word == "relative" && shared.relative {
            return Err(refuse());
        }
        if shared.take_word(word) {
            continue;
        }
        let (key, value) = word.split_once(char::is_whitespace).ok_or_else(refuse)?;
        let value = value.trim();
        match key {
            "bytes" => nbytes = Some(value),
            "offset" => offset = decimal(value).and_then(as_i32),
            "oper" => {
                op = Some(match value {
                    "+" => MathOp::Add,
                    "-" => MathOp::Subtract,
                    "*" => MathOp::Multiply,
                    "/" => MathOp::Divide,
                    "<<" => MathOp::ShiftLeft,
                    ">>" => MathOp::ShiftRight,
                    _ => return Err(refuse()),
                });
            }
            "rvalue" => rvalue = Some(value),
            "result" => result = Some(value),
            "endian" => {
                if !shared.take_word(value) {
                    return Err(refuse());
                }
            }
            "string" => {
                shared.is_string = true;
                if !shared.take_word(value) {
                    return Err(refuse());
                }
            }
            _ => return Err(refuse()),
        }
    }
    let (Some(nbytes), Some(offset), Some(op), Some(rvalue), Some(result)) =
        (nbytes, offset, op, rvalue, result)
    else {
        return Err(refuse());
    };
    let nbytes_max: i64 = if shared.is_string { 10 } else { 4 };
    let in_bounds = |n: &str| decimal(n).filter(|n| (1..=nbytes_max).contains(n)).map(|n| n as u8);
    let nbytes = operand(d, nbytes, in_bounds, || unknown(nbytes), refuse)?;
    let rvalue =
        operand(d, rvalue, |n| u32::try_from(decimal(n)?).ok(), || unknown(rvalue), refuse)?;
    let is_shift = matches!(op, MathOp::ShiftLeft | MathOp::ShiftRight);
    if (matches!(op, MathOp::Divide) && rvalue == Operand::Number(0))
        || (is_shift && matches!(rvalue, Operand::Number(n) if n > 31))
        || !is_name(result)
        || offset.abs() > 65_535
    {
        return Err(refuse());
    }
    check_dce(c, d, &shared, WHO)?;
    if shared.relative {
        let list = d.relative_list();
        let before = std::mem::replace(&mut d.list, list);
        let is_first = d.conditions().is_empty();
        d.list = before;
        if is_first {
            return Err(Refusal::new(WHO, "relative specified without previous pattern match"));
        }
    }
    let variable = define(d, result, WHO)?;
    push(
        d,
        shared.relative,
        BufferCondition::ByteMath(Box::new(ByteMath {
            nbytes,
            offset,
            op,
            rvalue,
            order: shared.order,
            text: shared.text(),
            relative: shared.relative,
            bitmask: shared.bitmask,
            variable,
        })),
    )
}

fn isdataat(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-isdataat";
    let refuse = || {
        let said = format!("pcre_exec parse error, ret -1, string {}", v.text);
        Err(Refusal::new(WHO, said)
            .because("`isdataat:N`, `isdataat:!N`, and after it `,relative` or `,rawbytes`"))
    };
    let mut parts = v.text.split(',').map(str::trim);
    let first = parts.next().unwrap_or("");
    let (negated, first) = match first.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, first),
    };
    if first.starts_with(char::is_whitespace) {
        return refuse();
    }
    let (mut relative, mut is_raw) = (false, false);
    for word in parts {
        match word {
            "relative" if !relative && !is_raw => relative = true,
            "rawbytes" if !is_raw => is_raw = true,
            _ => return refuse(),
        }
    }
    if first.is_empty() {
        return refuse();
    }
    let position = if is_name(first) {
        match d.byte_variable(first) {
            Some(n) => Operand::Variable(n),
            None => {
                let said = format!("Unknown byte_extract var seen in isdataat - {first}");
                return Err(Refusal::new(WHO, said));
            }
        }
    } else {
        match first.parse::<u16>() {
            Ok(n) => Operand::Number(n),
            Err(_) => {
                return Err(Refusal::new(WHO, format!("isdataat out of range: {first}")));
            }
        }
    };
    if relative && negated && position == Operand::Number(1) {
        // nothing may follow: the same as `endswith` on the content before
        let list = d.relative_list();
        let before = std::mem::replace(&mut d.list, list);
        let merged = match d.conditions().last_mut().map(|x| &mut x.condition) {
            Some(BufferCondition::Content(content)) => {
                content.flags.set(ContentFlags::ENDS_WITH);
                true
            }
            _ => false,
        };
        d.list = before;
        if merged {
            return Ok(());
        }
    }
    let condition = BufferCondition::IsDataAt(IsDataAt { position, relative, negated });
    push(d, relative, condition)
}

/// Adds a condition, relative to the match before it or not.
fn push(d: &mut Draft<'_>, relative: bool, condition: BufferCondition) -> Checked<()> {
    if relative { d.push_relative(condition) } else { d.push(condition) }
}

/// As Suricata 8.0.7 takes it: each part once, a comma behind the last, numbers below zero.
fn entropy(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let refuse = || Refusal::silent("`entropy:[bytes N,] [offset N,] value OP NUMBER`");
    let (mut bytes, mut offset, mut op) = (None, None, None);
    let text = v.text.trim_end();
    for part in text.strip_suffix(',').unwrap_or(text).split(',').map(str::trim) {
        let (key, value) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        let value = value.trim();
        let whole = || value.parse::<i32>().map_err(|_| refuse());
        let is_first = match key {
            "bytes" => bytes.replace(whole()?).is_none(),
            "offset" => offset.replace(whole()?).is_none(),
            "value" => op.replace(entropy_op(value).ok_or_else(refuse)?).is_none(),
            _ => false,
        };
        if !is_first {
            return Err(refuse());
        }
    }
    let op = op.ok_or_else(refuse)?;
    // Below zero: as if it was not written.
    let bytes = u32::try_from(bytes.unwrap_or_default()).unwrap_or(0);
    let offset = offset.unwrap_or_default();
    if offset.unsigned_abs() > u32::from(u16::MAX) {
        return Err(refuse());
    }
    let offset = u32::try_from(offset).unwrap_or(0);
    d.push(BufferCondition::Entropy(Box::new(EntropyTest { bytes, offset, op })))
}

fn entropy_op(text: &str) -> Option<EntropyOp> {
    let number = |s: &str| {
        let s = s.trim();
        // Neither `1.` nor `infinity` is a number there.
        s.parse::<f64>().ok().filter(|_| !s.ends_with(['.', 'y', 'Y']))
    };
    let after = |prefix: &str| text.strip_prefix(prefix);
    if let Some(rest) = after(">=") {
        return number(rest).map(EntropyOp::GreaterOrEqual);
    }
    if let Some(rest) = after("<=") {
        return number(rest).map(EntropyOp::LessOrEqual);
    }
    if let Some(rest) = after(">") {
        return number(rest).map(EntropyOp::Greater);
    }
    if let Some(rest) = after("<") {
        return number(rest).map(EntropyOp::Less);
    }
    if let Some(rest) = after("!=") {
        return number(rest).map(EntropyOp::Differs);
    }
    if let Some(rest) = after("=") {
        return number(rest).map(EntropyOp::Equal);
    }
    let (negated, rest) = match after("!") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if let Some(n) = number(rest) {
        return (!negated).then_some(EntropyOp::Equal(n));
    }
    // The first number may be below zero.
    let sign = rest.get(1..)?.find(['-', '<'])? + 1;
    let (a, b) = rest.split_at_checked(sign)?;
    let b = b.strip_prefix("<>").or_else(|| b.strip_prefix('-'))?;
    let (a, b) = (number(a)?, number(b)?);
    if a.partial_cmp(&b) != Some(std::cmp::Ordering::Less) {
        return None;
    }
    Some(if negated { EntropyOp::Outside(a, b) } else { EntropyOp::Between(a, b) })
}

fn asn1(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let refuse = || Refusal::new("parse_rules", format!("Malformed asn1 argument: {}", v.text));
    let mut test = Asn1::default();
    let mut words = v.text.split([',', ' ']).filter(|w| !w.is_empty());
    while let Some(word) = words.next() {
        match word {
            "bitstring_overflow" => test.bitstring_overflow = true,
            "double_overflow" => test.double_overflow = true,
            "oversize_length" => {
                let n = words.next().and_then(|n| n.parse().ok());
                test.oversize_length = Some(n.ok_or_else(refuse)?);
            }
            "absolute_offset" => {
                let n = words.next().and_then(|n| n.parse().ok());
                test.absolute_offset = Some(n.ok_or_else(refuse)?);
            }
            "relative_offset" => {
                let n = words.next().and_then(|n| n.parse().ok());
                test.relative_offset = Some(n.ok_or_else(refuse)?);
            }
            _ => return Err(refuse()),
        }
    }
    d.push(BufferCondition::Asn1(Box::new(test)))
}
