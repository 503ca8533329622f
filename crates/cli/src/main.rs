//! # gabion: the program
#![forbid(unsafe_code)]

mod suricata;

fn main() {}
