//! libFuzzer's entry point of `gabion_fuzz::syscall::state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::syscall::state(data));
