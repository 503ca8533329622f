//! libFuzzer's entry point of `gabion_fuzz::engine::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::engine::frames(data));
