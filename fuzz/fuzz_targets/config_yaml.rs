//! libFuzzer's entry point of `gabion_fuzz::config::yaml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::config::yaml(data));
