//! libFuzzer's entry point of `gabion_fuzz::nfcapd::file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::nfcapd::file(data));
