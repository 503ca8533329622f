//! # behavior: what hosts do, over time, and what of it is bad
//!
//! What comes in: records of flows and logs in order of event time ([`gabion_record::logs`]). What
//! goes out: evidence and alerts ([`gabion_record::evidence`]), the same ones each time, with ids
//! that are functions of what they say. What it holds: a profile for each address seen in the
//! current and the past window, and a few tables of the site, all bounded.
//!
//! It has no clock, no thread, does no I/O and has no globals but the counts of limits that were reached. Three stages, each of which can run
//! elsewhere:
//!
//! ```text
//! record ─▶ site (what no profile can see) ─▶ profile::step by address ─▶ accumulate by profile
//! ```
//!
//! - [`profile`]: `step`, and the profile's encoding and merging.
//! - [`detect`]: a file and a registry line for each detector.
//! - [`outlet`]: where they put what they found, and how much of it is made whole.
//! - [`intel`]: what lists from files say is bad.
//! - [`shards`]: profiles in shards that one thread holds and can hand to another; [`parcel`]: a record
//!   on its way there.
//! - [`asked`]: who asked whom, so that answers are no attempts; [`called`]: the name that a request is for.
//! - [`engine`]: the three stages, and all of them joined on one thread.
#![forbid(unsafe_code)]

pub mod accumulate;
mod ahead;
pub mod asked;
mod block_list;
pub mod called;
pub mod command_and_control;
pub mod context;
pub mod crowd;
pub mod detect;
pub mod engine;
mod error;
pub mod evidence;
pub mod fold_order;
pub mod intel;
pub mod limits;
pub mod mime;
mod names;
mod organizations;
pub mod outlet;
pub mod parcel;
pub mod prevalence;
pub mod profile;
pub mod regularity;
pub mod repeats;
pub mod rita;
pub mod room;
mod room_saved;
pub mod said;
pub mod seeds;
pub mod services;
pub mod settings;
pub mod settings_keys;
pub mod shard;
pub mod shards;
pub mod site;
pub mod sketch;
pub mod state;
mod steps;
mod text;
pub mod whitelist;

#[cfg(test)]
mod goes_on;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod last_numbers;
#[cfg(test)]
mod peer_defects;
#[cfg(test)]
mod step_floods;
#[cfg(test)]
mod trial;

pub use ahead::Ahead;
pub use detect::beacon::Calls;
pub use engine::{Back, Counts, Engine, Front, Output, Section, whitelisted};
pub use error::RestoreError;
pub use profile::{Profile, step};
pub use settings::Settings;
pub use shards::{Ends, Placed, Shards};
