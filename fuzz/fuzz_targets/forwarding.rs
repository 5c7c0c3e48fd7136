#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| swarmgate_fuzz::forwarding(data));
