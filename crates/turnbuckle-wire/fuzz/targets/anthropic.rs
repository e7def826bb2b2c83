#![no_main]

use libfuzzer_sys::fuzz_target;
use turnbuckle_wire::{Anthropic, AnthropicOptions};
use turnbuckle_wire_fuzz::check;

fuzz_target!(|input: &[u8]| check(&Anthropic::new("fuzz", AnthropicOptions::default()), input));
