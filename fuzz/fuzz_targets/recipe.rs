//! Any text of a recipe is refused or gives settings that are the same after they were written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/task/tests/all/properties.rs"]
mod properties;

fuzz_target!(|text: &str| {
    properties::recipe_is_read_or_refused(text);
});
