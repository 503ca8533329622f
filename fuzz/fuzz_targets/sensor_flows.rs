//! libFuzzer's entry point of `gabion_fuzz::sensor::flows`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::sensor::flows(data));
