//! libFuzzer's entry point of `gabion_fuzz::sensor::packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::sensor::packets(data));
