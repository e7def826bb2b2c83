#![no_main]

use libfuzzer_sys::fuzz_target;
use turnbuckle_wire::{OpenAiChat, Profile};
use turnbuckle_wire_fuzz::check;

fuzz_target!(|input: &[u8]| check(&OpenAiChat::new("fuzz", Profile::default()), input));
