//! libFuzzer's entry point of `gabion_fuzz::flowlog::intel`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::flowlog::intel(data));
