//! libFuzzer's entry point of `gabion_fuzz::feed::lists`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::feed::lists(data));
