//! Properties of reading untrusted recipes, shared by the seeded tests and the fuzz targets.

use lessen_task::recipe::phases::Recipe;
use lessen_task::recipe::settings::Settings;

/// Any text of a recipe is refused with one sentence, or gives settings that are the same after they were written and
/// read again. Returns whether it was read.
pub fn recipe_is_read_or_refused(text: &str) -> bool {
    let settings = match Settings::parse(text, "recipe.toml") {
        Ok(settings) => settings,
        Err(error) => {
            assert_eq!(error.exit_code(), 2, "{error}");
            assert!(!error.to_string().contains('\n'), "{error} is one sentence");
            return false;
        }
    };
    let written = settings.to_toml();
    let again = Settings::parse(&written, "written.toml").unwrap_or_else(|e| panic!("{e} in:\n{written}"));
    assert_eq!(settings.difference(&again, &[]), None, "in:\n{written}");
    match Recipe::new(settings) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.exit_code(), 2, "{error}");
            false
        }
    }
}
