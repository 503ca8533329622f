//! The front door for people who come from Suricata: its command line, its configuration.

pub(crate) mod yaml;
