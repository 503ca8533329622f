//! What detectors are, for people: pages, help and lists are made of it.

pub use crate::detect::{ALL, About};
pub use crate::room_saved::kind_of;
pub use crate::settings::Row;
pub use crate::settings_keys::{Use, keys, not_used, use_of};
