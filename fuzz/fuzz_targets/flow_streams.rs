//! libFuzzer's entry point of `gabion_fuzz::flow::streams`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::flow::streams(data));
