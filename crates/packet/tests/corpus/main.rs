//! The decoders over the corpus of captures: against the peer, and against broken bytes. Without
//! the corpus (environment variable `GABION_CORPUS`) the tests that need it skip.

mod any_bytes;
mod peer_events;
mod peer_stats;
mod replay;
