//! libFuzzer's way into `gabion_fuzz::seal::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::seal::envelope(data));
