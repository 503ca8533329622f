//! The decoders over the corpus of captures: compared with Suricata, and on broken bytes. Without
//! the corpus (environment variable `GABION_CORPUS`) the tests that need it skip.

mod any_bytes;
mod replay;
mod suricata_events;
mod suricata_stats;
