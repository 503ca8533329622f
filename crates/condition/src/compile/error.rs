//! Why a condition that parses can't be compiled.

use crate::lang::Position;
use thiserror::Error;

/// A fault with its place in the condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{fault}")]
pub struct CompileError {
    /// What is wrong.
    pub fault: Fault,
    /// Where.
    pub position: Position,
}

/// What is wrong in a condition. The messages are Falco's where Falco has one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// No field has the name, or the field does not take this argument.
    #[error("filter_check called with nonexistent field {0}")]
    NoField(String),
    /// The field needs an argument.
    #[error("filter syntax error: {0}")]
    NoArgument(String),
    /// No event has the name.
    #[error("unknown event type {0}")]
    NoEvent(String),
    /// The field is compared with a number and this is none.
    #[error("{0} is not a valid number")]
    NoNumber(String),
    /// Neither true nor false.
    #[error("unrecognized boolean value {0}")]
    NoBool(String),
    /// No port and no service.
    #[error("unrecognized protocol {0}")]
    NoPort(String),
    /// No address.
    #[error("unrecognized IPv6 address {0}")]
    NoAddress(String),
    /// No network.
    #[error("unrecognized IP network {0}")]
    NoNetwork(String),
    /// No regular expression.
    #[error("invalid regex pattern: {0}")]
    NoRegex(String),
    /// No hexadecimal digits.
    #[error("invalid hexadecimal string {0}")]
    NoHex(String),
    /// The operator does not apply to values of the field's type.
    #[error("operator '{op}' is not supported for fields of type '{kind}': {field}")]
    NoOperator {
        /// The operator.
        op: &'static str,
        /// The field's type.
        kind: &'static str,
        /// The field.
        field: String,
    },
    /// The field can't be compared with a field.
    #[error("field '{0}' doesn't support right-hand side fields")]
    NoRightHand(String),
    /// Two fields of different types are compared.
    #[error(
        "comparison of fields with different types: '{left}' is of type '{left_kind}', '{right}' of type '{right_kind}'"
    )]
    DifferentKinds {
        /// The left field.
        left: String,
        /// Its type.
        left_kind: &'static str,
        /// The right field.
        right: String,
        /// Its type.
        right_kind: &'static str,
    },
    /// The transformer does not take values of the field's type.
    #[error(
        "can't add field transformer: type '{kind}' is not supported by '{transformer}' transformer applied on field '{field}'"
    )]
    NoTransformerForKind {
        /// The field's type.
        kind: &'static str,
        /// The transformer.
        transformer: &'static str,
        /// The field.
        field: String,
    },
    /// The field takes no transformers.
    #[error("field '{0}' doesn't support transformers")]
    NoTransformer(String),
    /// The transformer takes other arguments.
    #[error("transformer '{0}' takes {1}")]
    Arguments(&'static str, &'static str),
    /// A name that is neither a macro nor a part of a comparison.
    #[error("filter error: unexpected identifier '{0}'")]
    NoMacro(String),
    /// Macros inside macros beyond the limit.
    #[error("macros are nested more than {0} deep")]
    TooDeep(usize),
    /// The rules have more parts than the limit allows.
    #[error("conditions have more than {0} parts")]
    TooLarge(usize),
}

impl Fault {
    /// Whether it is about a name that another version of the program may know: `skip-if-unknown-filter` skips such
    /// rules.
    pub fn is_unknown_name(&self) -> bool {
        matches!(self, Fault::NoField(_) | Fault::NoEvent(_))
    }

    /// The fault at a place.
    pub fn at(self, position: Position) -> CompileError {
        CompileError { fault: self, position }
    }
}
