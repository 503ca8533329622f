//! libFuzzer's entry point of `gabion_fuzz::lua::script`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::lua::script(data));
