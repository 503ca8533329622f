//! libFuzzer's way into `gabion_fuzz::logs::framing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::logs::framing(data));
