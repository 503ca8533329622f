//! libFuzzer's entry point of `gabion_fuzz::scap::rewrite`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::scap::rewrite(data));
