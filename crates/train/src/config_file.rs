//! `config.toml` of a run: all its settings, and in comments before them what is no setting: the recipe's name and the
//! budget.

use crate::folder::Folder;
use crate::settings::Settings;
use crate::size::parse_size;
use lessen_base::{Error, Result};
use std::fs;

/// How the first line begins; the recipe's name follows.
const RECIPE_LINE: &str = "# recipe: ";
/// How the second line begins, if the run has a budget; its bytes follow.
const BUDGET_LINE: &str = "# budget: ";

/// What a run was told to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The recipe's name.
    pub recipe: String,
    /// The settings.
    pub settings: Settings,
    /// Most bytes that parameters, optimizer and steps may take.
    pub budget: Option<usize>,
}

impl Written {
    /// The text of `config.toml`.
    pub(crate) fn text(&self) -> String {
        let budget = self
            .budget
            .map_or(String::new(), |bytes| format!("{BUDGET_LINE}{bytes}\n"));
        format!(
            "{RECIPE_LINE}{}\n{budget}{}",
            self.recipe,
            self.settings.to_toml()
        )
    }
}

/// What the run in a folder was told to be.
///
/// # Errors
/// A `config.toml` that cannot be read or has a mistake.
pub fn read_config(folder: &Folder) -> Result<Written> {
    let path = folder.config();
    let shown = path.display().to_string();
    let text = fs::read_to_string(&path)
        .map_err(|error| Error::user(format!("{shown} cannot be read ({error}); restore the file")))?;
    let comment = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let budget = comment(BUDGET_LINE).map(parse_size).transpose();
    Ok(Written {
        recipe: comment(RECIPE_LINE).unwrap_or("unknown").to_string(),
        budget: budget.map_err(|error| Error::user(format!("{shown}, the line '{BUDGET_LINE}': {error}")))?,
        settings: Settings::parse(&text, &shown)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipe_settings_and_budget_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(&dir.path().join("run")).unwrap();
        for budget in [None, Some(123_456_789_012)] {
            let mut settings = Settings::parse("", "my.toml").unwrap();
            settings.set_flag("train.steps=7").unwrap();
            let written = Written {
                recipe: "my own".into(),
                settings,
                budget,
            };
            folder.write("config.toml", &written.text()).unwrap();
            let found = read_config(&folder).unwrap();
            assert_eq!((&*found.recipe, found.budget), ("my own", budget));
            assert_eq!(found.settings.difference(&written.settings, &[]), None);
        }
        folder.write("config.toml", "# budget: much\n").unwrap();
        let sentence = read_config(&folder).unwrap_err().to_string();
        assert!(
            sentence.contains("config.toml, the line '# budget: ': 'much' is no size"),
            "{sentence}"
        );
    }
}
