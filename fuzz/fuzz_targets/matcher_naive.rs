//! libFuzzer's entry point of `gabion_fuzz::matcher::naive`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::matcher::naive(data));
