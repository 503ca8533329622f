//! libFuzzer's entry point of `gabion_fuzz::intake::server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::intake::server(data));
