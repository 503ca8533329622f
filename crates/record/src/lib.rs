//! To be described by its author.

pub mod budget;
pub mod ledger;
