//! libFuzzer's entry point of `gabion_fuzz::capture::read`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::capture::read(data));
