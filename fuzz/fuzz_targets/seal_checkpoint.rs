//! libFuzzer's entry point of `gabion_fuzz::seal::checkpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::seal::checkpoint(data));
