//! libFuzzer's entry point of `gabion_fuzz::rule_files::files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::rule_files::files(data));
