//! # behavior: what hosts do over time, and what of it is bad
//!
//! What comes in: records of flows and logs in order of event time ([`gabion_record::logs`]). What goes out: evidence
//! and alerts ([`gabion_record::evidence`]), the same ones each time, with ids that are functions of what they are
//! about. What it holds: a profile for each address seen in the current and the past window, and a few tables of the
//! site, all bounded.
//!
//! ```
//! use gabion_behavior::{Engine, Output, Settings};
//! use gabion_record::Ip;
//! use gabion_record::logs::{Body, Conn, ConnState, Label, Proto, Record, SECOND, TimeNs};
//!
//! let mut engine = Engine::new(Settings::default(), None);
//! let mut found = Vec::new();
//! let mut take = |output: Output<'_>| {
//!     if let Output::Report(evidence, _sum_of_the_window) = output {
//!         found.push(evidence.kind.name);
//!     }
//! };
//! // One host asks forty others for the same port, and none of them answers.
//! for n in 0..40 {
//!     let state = ConnState::Other(b"S0");
//!     let refused = Conn { orig_pkts: 1, state, history: b"S", ..Conn::default() };
//!     let record = Record {
//!         ts: TimeNs(i64::from(n) * SECOND),
//!         src: Ip::v4(0x0a00_0001),
//!         dst: Ip::v4(0xcb00_7100 + n),
//!         src_port: 40_000,
//!         dst_port: 23,
//!         proto: Proto::Tcp,
//!         uid: b"",
//!         label: Label::None,
//!         is_late: false,
//!         body: Body::Conn(refused),
//!     };
//!     engine.record(&record, &mut take);
//! }
//! engine.finish(&mut take);
//! assert!(found.contains(&"HORIZONTAL_PORT_SCAN"));
//! ```
//!
//! `examples/evidence.rs` reads logs from files. [`stages`] are the parts of [`Engine`] for those who run them on
//! several threads.
//!
//! The crate has no clock, no thread and no globals but the counts of limits that were reached, and it does no I/O.
//! Three stages, each of which can run elsewhere:
//!
//! ```text
//! record ─▶ site (what no profile can see) ─▶ profile::step by address ─▶ accumulate by profile
//! ```
//!
//! Where to find what in the sources:
//!
//! - `profile`: `step`, and the profile's encoding and merging.
//! - `detect`: a file and a registry line for each detector; a threshold of one is a row of `settings`. `trial` is what
//!   their tests are written with, `hostile` has a script against each.
//! - `context`: what a detector sees, and `outlet`: where it puts what it found, and how much of that is made whole.
//! - `intel`: what lists from files name as bad. `whitelist`: what is not to be reported.
//! - `shards`: profiles in shards that one thread holds and can hand to another; `parcel`: a record on its way there.
//! - `asked`: which host asked which, so that answers are no attempts; `called`: the name that a request is for.
//! - `engine`: the three stages, and all of them on one thread.
//!
//! # Features
//!
//! All are on by default.
//!
//! - `lists-as-json`: lists of indicators as JSON and STIX (`serde_json`). Without it they are read by lines only.
//! - `public-suffixes`: registered domains by the list of public suffixes (`psl`). Without it the last two labels of a
//!   name count as its registered part.
//! - `huge-pages`: the table of indicators in memory on huge pages (`memmap2`), for large lists.
#![forbid(unsafe_code)]

mod accumulate;
mod ahead;
mod asked;
mod block_list;
mod called;
pub mod catalog;
mod command_and_control;
mod context;
mod crowd;
mod detect;
mod engine;
mod error;
mod evidence;
mod fold_order;
pub mod intel;
pub mod limits;
mod mime;
mod names;
mod organizations;
mod outlet;
pub mod pairs;
mod parcel;
mod prevalence;
mod profile;
mod regularity;
mod repeats;
mod rita;
mod room;
mod room_saved;
mod said;
mod seeds;
mod services;
mod settings;
mod settings_keys;
mod shard;
mod shards;
mod site;
mod sketch;
pub mod stages;
mod state;
mod steps;
mod text;
pub mod whitelist;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod last_numbers;
#[cfg(test)]
mod save_and_restore;
#[cfg(test)]
mod slips_defects;
#[cfg(test)]
mod step_floods;
#[cfg(test)]
mod trial;

pub use engine::{Counts, Engine, Output, Whitelisted};
pub use error::RestoreError;
pub use profile::Profile;
pub use settings::{Direction, HttpsSettings, SettingError, Settings};
pub use shard::Kept;
