#![no_main]

use libfuzzer_sys::fuzz_target;
use turnbuckle_wire::{Ollama, OllamaOptions};
use turnbuckle_wire_fuzz::check;

fuzz_target!(|input: &[u8]| check(&Ollama::new("fuzz", OllamaOptions::default()), input));
