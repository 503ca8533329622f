//! libFuzzer's entry point of `gabion_fuzz::packet::decode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::packet::decode(data));
