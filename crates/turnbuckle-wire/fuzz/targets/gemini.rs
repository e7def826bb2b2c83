#![no_main]

use libfuzzer_sys::fuzz_target;
use turnbuckle_wire::{Gemini, GeminiOptions};
use turnbuckle_wire_fuzz::check;

fuzz_target!(|input: &[u8]| check(&Gemini::new("fuzz", GeminiOptions::default()), input));
