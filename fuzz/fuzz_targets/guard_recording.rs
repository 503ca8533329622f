//! libFuzzer's entry point of `gabion_fuzz::guard::recording`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::guard::recording(data));
