//! libFuzzer's entry point of `gabion_fuzz::condition::condition`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::condition::condition(data));
