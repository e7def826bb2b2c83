#![no_main]

use libfuzzer_sys::fuzz_target;
use turnbuckle_wire::{OpenAiResponses, ResponsesOptions};
use turnbuckle_wire_fuzz::check;

fuzz_target!(|input: &[u8]| check(
    &OpenAiResponses::new("fuzz", ResponsesOptions::default()),
    input
));
