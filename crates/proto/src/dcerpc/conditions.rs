//! Conditions that rules may set on calls, whichever protocol carries them.

use super::Call;
use super::tables::BOTH;
use super::uuid::Uuid;
use gabion_record::Direction;
use gabion_record::applayer::{ConditionDef, ConditionError, Hook, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// The keywords of DCE/RPC itself.
pub(super) const CONDITIONS: &[ConditionDef] = &[interface(BOTH), operation(BOTH)];

/// `dcerpc.iface` of a protocol that carries calls.
pub const fn interface(hooks: &'static [Hook]) -> ConditionDef {
    ConditionDef { name: "dcerpc.iface", aliases: &["dce_iface"], parse: parse_interface, hooks }
}

/// `dcerpc.opnum` of a protocol that carries calls.
pub const fn operation(hooks: &'static [Hook]) -> ConditionDef {
    ConditionDef { name: "dcerpc.opnum", aliases: &["dce_opnum"], parse: parse_operation, hooks }
}

/// The call of a transaction, for each protocol that carries calls. A further protocol adds its
/// function here.
const CARRIERS: &[for<'a> fn(&'a dyn Any) -> Option<Call<'a>>] =
    &[super::tx::call_in, crate::smb::call_in];

fn call_in(tx: &dyn Any) -> Option<Call<'_>> {
    CARRIERS.iter().find_map(|carrier| carrier(tx))
}

/// How a version is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VersionTest {
    Any,
    Less(u16),
    Greater(u16),
    Equal(u16),
    Not(u16),
}

impl VersionTest {
    fn holds(self, version: u16) -> bool {
        match self {
            VersionTest::Any => true,
            VersionTest::Less(n) => version < n,
            VersionTest::Greater(n) => version > n,
            VersionTest::Equal(n) => version == n,
            VersionTest::Not(n) => version != n,
        }
    }
}

/// `dcerpc.iface`.
#[derive(Debug)]
struct InterfaceTest {
    uuid: Uuid,
    version: VersionTest,
    any_fragment: bool,
}

impl TxCondition for InterfaceTest {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let interface = call_in(tx).and_then(|call| call.interface);
        interface.is_some_and(|i| {
            i.uuid == self.uuid
                && i.is_accepted()
                && (i.is_of_first_fragment || self.any_fragment)
                && self.version.holds(i.version.0)
        })
    }
}

fn parse_interface(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = value.ok_or(ConditionError::NeedsValue { keyword: "dcerpc.iface" })?;
    let wrong = || ConditionError::NotOneOf {
        keyword: "dcerpc.iface",
        text: text.to_owned(),
        expected: "an interface's identifier, a version, `any_frag`",
    };
    let mut parts = text.split(',').map(str::trim);
    let uuid = parts.next().and_then(Uuid::from_text).ok_or_else(wrong)?;
    let mut test = InterfaceTest { uuid, version: VersionTest::Any, any_fragment: false };
    for part in parts {
        if part == "any_frag" {
            if std::mem::replace(&mut test.any_fragment, true) {
                return Err(wrong());
            }
            continue;
        }
        let mut chars = part.chars();
        let op = chars.next().ok_or_else(wrong)?;
        let number = chars.as_str().trim();
        let number = match number.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16).map_err(|_| wrong())?,
            None => number.parse().map_err(|_| wrong())?,
        };
        if test.version != VersionTest::Any {
            return Err(wrong());
        }
        test.version = match op {
            '<' => VersionTest::Less(number),
            '>' => VersionTest::Greater(number),
            '=' => VersionTest::Equal(number),
            '!' => VersionTest::Not(number),
            _ => return Err(wrong()),
        };
    }
    Ok(Arc::new(test))
}

/// `dcerpc.opnum`: ranges of numbers, first and last.
#[derive(Debug)]
struct OperationTest(Vec<(u32, u32)>);

impl TxCondition for OperationTest {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let Some(Call { opnum, .. }) = call_in(tx) else { return false };
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&u32::from(opnum)))
    }
}

fn parse_operation(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = value.ok_or(ConditionError::NeedsValue { keyword: "dcerpc.opnum" })?;
    let number = |t: &str| t.trim().parse::<u32>().map_err(|_| ConditionError::NotANumber);
    let mut ranges = Vec::new();
    for part in text.split(',') {
        let range = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if range.0 > range.1 {
            return Err(ConditionError::EmptyRange);
        }
        ranges.push(range);
    }
    Ok(Arc::new(OperationTest(ranges)))
}
