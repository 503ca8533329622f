//! libFuzzer's entry point of `gabion_fuzz::matcher::regex`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::matcher::regex(data));
