//! libFuzzer's entry point of `gabion_fuzz::filter::compile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::filter::compile(data));
