//! A short seeded run of the property that a fuzz target checks for longer.

use lessen_base::{SplitMix64, cases};
use lessen_task::recipe::BUILT_IN;

use crate::properties::recipe_is_read_or_refused;

/// Seeds of the mutations of each recipe, where the test runs all of them.
const SEEDS: u64 = 500;

/// Replaces, inserts, removes or repeats a few characters.
fn mutated(sound: &str, random: &mut SplitMix64) -> String {
    let mut text: Vec<char> = sound.chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(text.len().max(1) as u64) as usize;
        let end = (at + 1 + random.below(8) as usize).min(text.len());
        match random.below(4) {
            0 if at < text.len() => {
                text[at] = ['0', '9', '-', '.', 'e', '"', '[', ']', '=', '\n', '牛', '\0'][random.below(12) as usize]
            }
            1 => text.insert(at, ['1', '_', '\'', '#', '{', ','][random.below(6) as usize]),
            2 => drop(text.drain(at..end)),
            _ => text.splice(at..at, text[at..end].to_vec()).for_each(drop),
        }
    }
    text.into_iter().collect()
}

#[test]
fn mutated_recipes_are_read_or_refused() {
    for recipe in BUILT_IN {
        recipe_is_read_or_refused(recipe.text);
        let (mut read, seeds) = (0, cases(SEEDS));
        for seed in 0..seeds {
            println!("{}, seed {seed}", recipe.name);
            read += u64::from(recipe_is_read_or_refused(&mutated(
                recipe.text,
                &mut SplitMix64::new(seed),
            )));
        }
        assert!(read < seeds, "no mutation of {} was refused", recipe.name);
    }
}
