//! libFuzzer's entry point of `gabion_fuzz::rules::parse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::rules::parse(data));
