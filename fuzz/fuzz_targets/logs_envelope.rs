//! libFuzzer's entry point of `gabion_fuzz::logs::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::logs::envelope(data));
