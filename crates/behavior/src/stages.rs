//! The stages of an [`Engine`](crate::Engine) one by one, for those who run them on several threads: records go
//! through a [`Front`] in order, profiles of their sources are in [`Shards`], and what these find goes through a
//! [`Back`], in the order of places.

pub use crate::ahead::Ahead;
pub use crate::engine::{Back, Front, Section, Turn, whitelisted};
pub use crate::parcel::{Found, Opened, Parcel, ahead, put_record, put_turn, take_parcel};
pub use crate::profile::step;
pub use crate::shard::{Shard, ShardCounts, shard_of};
pub use crate::shards::{Ends, Placed, Shards};
pub use crate::site::Facts;
pub use crate::whitelist::Learned;
