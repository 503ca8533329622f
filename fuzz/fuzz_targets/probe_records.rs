//! libFuzzer's entry point of `gabion_fuzz::probe::records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::probe::records(data));
