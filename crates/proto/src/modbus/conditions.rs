//! The keyword `modbus`, which asks for a request (Suricata's manual, "Modbus Keyword").

use super::function::access::{COILS, DISCRETES, HOLDING, INPUT, READ, WRITE};
use super::function::{category, function_of};
use super::message::{Data, Message, Write};
use super::tables::ON_BOTH;
use super::tx::ModbusTx;
use gabion_record::Direction;
use gabion_record::applayer::{ConditionDef, ConditionError, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// The keyword.
pub(super) const CONDITIONS: &[ConditionDef] =
    &[ConditionDef { name: "modbus", aliases: &[], parse: parse_condition, hooks: ON_BOTH }];

/// Numbers that a rule asks for: one, or those between two that don't belong to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    min: u16,
    max: u16,
}

impl Wanted {
    /// Whether some of the numbers from `first` to `last` is wanted, as Suricata 8.0.7 decides: what begins at 0 has no
    /// lower bound, what ends at 65,535 no upper one.
    fn meets(self, first: u16, last: u16) -> bool {
        if self.min == self.max {
            (first..=last).contains(&self.min)
        } else if self.min == u16::MIN {
            self.max > first
        } else if self.max == u16::MAX {
            self.min < last
        } else {
            self.min < last && self.max > first
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Anything,
    /// A function, or any that is not known; of diagnostics perhaps one.
    Function {
        code: Option<u8>,
        diagnostic: Option<u16>,
    },
    /// One of these categories.
    Category(u8),
    /// All of these accesses, perhaps to an address and with a value there.
    Access {
        bits: u8,
        address: Option<Wanted>,
        value: Option<Wanted>,
    },
}

#[derive(Debug, PartialEq, Eq)]
struct Condition {
    unit: Option<Wanted>,
    what: What,
}

impl TxCondition for Condition {
    fn matches(&self, tx: &dyn Any, direction: Direction) -> bool {
        // A response that nobody asked for stands for its request (Suricata 8.0.7).
        let tx = tx.downcast_ref::<ModbusTx>().filter(|_| direction == Direction::ToServer);
        let Some(request) = tx.and_then(|tx| tx.request.as_ref().or(tx.response.as_ref())) else {
            return false;
        };
        let unit = u16::from(request.unit);
        self.unit.is_none_or(|wanted| wanted.meets(unit, unit)) && is_met(self.what, request)
    }
}

fn is_met(what: What, request: &Message) -> bool {
    match what {
        What::Anything => true,
        What::Function { code, diagnostic } => {
            let is_diagnostic = |wanted: u16| matches!(&request.data, Data::Diagnostic { code, .. } if *code == wanted);
            request.function().map(|f| f.code) == code && diagnostic.is_none_or(is_diagnostic)
        }
        What::Category(categories) => request.category & categories != 0,
        What::Access { bits, address, value } => {
            request.access() & bits == bits
                && address.is_none_or(|wanted| {
                    accessed(request).is_some_and(|(first, last)| wanted.meets(first, last))
                })
                && value.is_none_or(|wanted| {
                    let place = address.filter(|a| a.min == a.max).map(|a| a.min);
                    let value = place.and_then(|place| value_at(request, place));
                    value.is_some_and(|value| wanted.meets(value, value))
                })
        }
    }
}

/// The first and the last address that a request names, counted from 1: what it writes, if it writes.
fn accessed(request: &Message) -> Option<(u16, u16)> {
    let range = match &request.data {
        Data::Read(range) => range,
        Data::Write(Write::Many { range, .. }) | Data::ReadWrite(_, Write::Many { range, .. }) => {
            range
        }
        Data::Write(Write::One { address, .. } | Write::Mask { address, .. }) => {
            let place = address.wrapping_add(1);
            return Some((place, place));
        }
        Data::ReadWrite(..)
        | Data::Empty
        | Data::Bytes(_)
        | Data::Exception(_)
        | Data::Diagnostic { .. }
        | Data::Interface { .. }
        | Data::Values(_) => return None,
    };
    let last = range.address.checked_add(range.quantity)?;
    (range.quantity > 0).then(|| (range.address.saturating_add(1), last))
}

/// The value that a request writes to an address, counted from 1.
fn value_at(request: &Message, place: u16) -> Option<u16> {
    let is_coil = request.access() & COILS != 0;
    match &request.data {
        Data::Write(Write::One { value, .. }) if is_coil => Some((*value != 0).into()),
        Data::Write(Write::One { value, .. }) => Some(*value),
        Data::Write(Write::Many { range, data })
        | Data::ReadWrite(_, Write::Many { range, data }) => {
            let offset = usize::from(place.checked_sub(range.address)?.checked_sub(1)?);
            if is_coil {
                // Where Suricata 8.0.7 looks for a coil (one of 40 coils set at a time).
                let byte = data.get(offset / 4 + 1)?;
                return Some(u16::from(byte >> (offset % 8) & 1));
            }
            Some(u16::from_be_bytes(*data.get(2 * offset..)?.first_chunk()?))
        }
        Data::Write(Write::Mask { .. })
        | Data::ReadWrite(..)
        | Data::Empty
        | Data::Bytes(_)
        | Data::Exception(_)
        | Data::Diagnostic { .. }
        | Data::Interface { .. }
        | Data::Read(_)
        | Data::Values(_) => None,
    }
}

/// What is left of a value, from which words are taken.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Skips white space, and says whether there was some.
    fn skip_space(&mut self) -> bool {
        let rest = self.0.trim_start();
        let is_there = rest.len() < self.0.len();
        self.0 = rest;
        is_there
    }

    fn skip_word(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Takes a comma with the word after it, and the space that has to follow.
    fn take_setting(&mut self, word: &str) -> bool {
        let mut rest = *self;
        let _ = rest.skip_word(",");
        let is_it = self.0.starts_with(',') && {
            rest.skip_space();
            rest.skip_word(word) && rest.skip_space()
        };
        if is_it {
            *self = rest;
        }
        is_it
    }

    fn digits(&mut self) -> Option<u16> {
        let len = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(len);
        self.0 = rest;
        digits.parse().ok()
    }

    fn wanted(&mut self) -> Option<Wanted> {
        if self.skip_word(">") {
            return Some(Wanted { min: self.digits()?, max: u16::MAX });
        }
        if self.skip_word("<") {
            return Some(Wanted { min: u16::MIN, max: self.digits()? });
        }
        let min = self.digits()?;
        let max = if self.skip_word("<>") { self.digits()? } else { min };
        Some(Wanted { min, max })
    }

    fn is_done(&mut self) -> bool {
        self.skip_space();
        self.0.is_empty()
    }
}

fn parse_condition(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let keyword = "modbus";
    let text = value.ok_or(ConditionError::NeedsValue { keyword })?;
    let condition = parse_text(text).ok_or_else(|| ConditionError::NotOneOf {
        keyword,
        text: text.to_owned(),
        expected: "a unit, a function or an access",
    })?;
    Ok(Arc::new(condition))
}

fn parse_text(text: &str) -> Option<Condition> {
    let mut rest = Rest(text);
    rest.skip_space();
    if !rest.skip_word("unit") {
        return Some(Condition { unit: None, what: parse_what(rest)? });
    }
    let unit = if rest.skip_space() { Some(rest.wanted()?) } else { return None };
    let what = if rest.skip_word(",") {
        parse_what(rest)?
    } else {
        rest.is_done().then_some(What::Anything)?
    };
    Some(Condition { unit, what })
}

fn parse_what(mut rest: Rest<'_>) -> Option<What> {
    rest.skip_space();
    let what = if rest.skip_word("function") {
        rest.skip_space();
        parse_function(&mut rest)?
    } else if rest.skip_word("access") {
        rest.skip_space();
        parse_access(&mut rest)?
    } else {
        return None;
    };
    rest.is_done().then_some(what)
}

const CATEGORIES: &[(&str, u8)] = &[
    ("assigned", category::ASSIGNED),
    ("unassigned", category::UNASSIGNED),
    ("public", category::ASSIGNED | category::UNASSIGNED),
    ("user", category::USER),
    ("reserved", category::RESERVED),
    ("all", ALL_CATEGORIES),
];

const ALL_CATEGORIES: u8 =
    category::ASSIGNED | category::UNASSIGNED | category::USER | category::RESERVED;

fn parse_function(rest: &mut Rest<'_>) -> Option<What> {
    let is_negated = rest.skip_word("!");
    let len = rest.0.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (word, after) = rest.0.split_at(len);
    rest.0 = after;
    let diagnostic = if rest.take_setting("subfunction") { Some(rest.digits()?) } else { None };
    if let Some((_, categories)) = CATEGORIES.iter().find(|(name, _)| *name == word) {
        // A code of a diagnostic is read and means nothing.
        return Some(What::Category(if is_negated {
            ALL_CATEGORIES & !categories
        } else {
            *categories
        }));
    }
    let is_number = !is_negated && word.bytes().all(|b| b.is_ascii_digit());
    let code = word.parse::<u8>().ok().filter(|code| is_number && *code > 0)?;
    Some(What::Function { code: function_of(code).map(|f| f.code), diagnostic })
}

fn parse_access(rest: &mut Rest<'_>) -> Option<What> {
    let kind =
        if rest.skip_word("read") { READ } else { rest.skip_word("write").then_some(WRITE)? };
    rest.skip_space();
    let tables =
        [("discretes", DISCRETES), ("coils", COILS), ("input", INPUT), ("holding", HOLDING)];
    let table = tables.iter().find(|(name, _)| rest.skip_word(name)).map_or(0, |(_, bit)| *bit);
    if kind == WRITE && matches!(table, DISCRETES | INPUT) {
        return None;
    }
    let mut wanted =
        |word| if rest.take_setting(word) { rest.wanted().map(Some) } else { Some(None) };
    let address = wanted("address")?;
    let value = if address.is_some() { wanted("value")? } else { None };
    if value.is_some() && kind == READ && table == 0 {
        return None;
    }
    Some(What::Access { bits: kind | table, address, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which values Suricata 8.0.7 takes.
    #[test]
    fn values() {
        for good in [
            "function 1",
            " function 255 ",
            "function 007",
            "function1",
            "function !user",
            "function 8,  subfunction  4",
            "function !assigned, subfunction 4",
            "access read",
            "accessread",
            "access readcoils",
            "access read, address 5",
            "access write, address 5, value 5",
            "access write coils,address 5<>1,value >65535",
            "access read input, address <0, value 1<>5",
            "unit 65535",
            "unit >9,access read coils, address 0<>2",
            "unit 1<>9,  function 8, subfunction 65535",
        ] {
            assert!(parse_condition(Some(good)).is_ok(), "{good}");
        }
        for bad in [
            "",
            "function",
            "function 0",
            "function 256",
            "function -1",
            "function !1",
            "function ! user",
            "function Assigned",
            "function 1 2",
            "function 1,",
            "function 8 , subfunction 4",
            "function 8, subfunction4",
            "function 8, subfunction 65536",
            "\"function 1\"",
            "access",
            "access Read",
            "access write input",
            "access write discretes",
            "access read coils, address < 5",
            "access read coils, address 65536",
            "access read coils, address >1<>5",
            "access read coils, value 5",
            "access read, address 5, value 5",
            "access read coils, address 5 ,value 5",
            "access read coils, address 5, function 1",
            "unit1",
            "unit 1,",
            "unit !1",
            "unit 1, unit 2",
            "function 1, unit 1",
            "subfunction 4",
        ] {
            assert!(parse_condition(Some(bad)).is_err(), "{bad}");
        }
        assert!(parse_condition(None).is_err());
    }

    /// Which numbers Suricata 8.0.7 takes for such a range.
    #[test]
    fn ranges() {
        let meets = |text: &str, number: u16| Rest(text).wanted().unwrap().meets(number, number);
        for (text, number) in [
            ("11", 11),
            (">10", 11),
            ("<12", 11),
            ("10<>12", 11),
            (">0", 0),
            ("<0", 0),
            ("0<>1", 0),
            (">65535", u16::MAX),
            ("65534<>65535", u16::MAX),
        ] {
            assert!(meets(text, number), "{text} {number}");
        }
        for (text, number) in [
            ("11", 12),
            (">11", 11),
            ("<11", 11),
            ("10<>11", 11),
            ("11<>12", 11),
            ("0<>1", 1),
            (">0", u16::MAX),
            ("0<>65535", u16::MAX),
            ("<65535", u16::MAX),
        ] {
            assert!(!meets(text, number), "{text} {number}");
        }
        // Of several addresses one is enough, and that between two numbers without another one.
        let between = |text: &str| Rest(text).wanted().unwrap().meets(11, 15);
        assert!(between("11<>12") && between("14<>15") && !between("15<>16") && !between("8<>11"));
    }
}
