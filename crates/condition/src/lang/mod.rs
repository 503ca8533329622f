//! The language of conditions: from text to a tree, and from a tree to text.

pub mod ast;
mod parse;
mod print;
mod visit;

pub use ast::{Argument, Expr, FieldRef, Op, Operand, Position, Quantifier, Right, Transformer};
pub use parse::{ParseError, is_identifier, parse, parse_field, parse_quoted};
pub(crate) use print::write_field;
pub use print::{quoted, text_of};
pub(crate) use visit::{visit_checks, visit_fields};
