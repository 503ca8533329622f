//! libFuzzer's entry point of a protocol's parser: the one that GABION_FUZZ_PROTO names (`http1`),
//! or the one that the first byte of the input selects.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_fuzz::proto::chosen(data));
