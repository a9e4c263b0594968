#![no_main]

use fangorn::import::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fangorn_fuzz::check(Format::XgboostUbjson, bytes));
