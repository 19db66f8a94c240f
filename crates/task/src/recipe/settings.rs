//! Settings: values for the keys of a [`Schema`], each with the place it comes from.
//!
//! A recipe is a TOML file; `--set KEY=VALUE` and other flags go over it; defaults fill the rest. A recipe may have
//! [training phases](super::phases), each a list of changes to the settings of the phase before.

use super::document::{Document, leaves};
use super::keys::{CORE, Schema, Section};
use super::optimizer;
use super::phase_tables::{self, PhaseTable};
use super::value::{Origin, SettingValue, ValueKind, Values, fit, parse_value};
use super::values::{changes, put, set, tables_of};
use lessen_base::{Error, Result};
use lessen_data::is_pattern;
use std::path::Path;
use toml::de::DeTable;

/// Values of keys with their origins, and the changes of training phases. Optional keys may be missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub(crate) schema: &'static Schema,
    /// The values of keys that are given, or have a default.
    pub values: Values,
    pub(crate) phases: Vec<PhaseTable>,
}

impl Schema {
    /// The settings of a recipe's text, over the defaults. `file` names it in messages.
    ///
    /// # Errors
    /// A text that is no TOML, an unknown key, a value that the key does not take.
    pub fn parse(&'static self, text: &str, file: &str) -> Result<Settings> {
        Settings::of(self, &Document::parse(text, file, None)?)
    }
}

impl Settings {
    /// The values of a section.
    ///
    /// # Errors
    /// A value that is missing or not taken.
    pub fn section<S: Section>(&self) -> Result<S> {
        S::read(&|name| self.get(name)).map_err(|name| {
            let key = S::KEYS.iter().find(|key| key.name == name);
            let expected = key.map_or("a value".to_string(), |key| key.kind.expected());
            Error::user(format!("{}: {name} must be {expected}", self.origin(name)))
        })
    }

    /// The settings of a run's recipe; see [`Schema::parse`].
    ///
    /// # Errors
    /// As there.
    pub fn parse(text: &str, file: &str) -> Result<Settings> {
        CORE.parse(text, file)
    }

    /// The settings of a document, over the defaults. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// As [`Schema::parse`].
    pub(crate) fn of(schema: &'static Schema, document: &Document<'_>) -> Result<Settings> {
        let mut settings = Settings {
            schema,
            values: Values::new(),
            phases: Vec::new(),
        };
        for key in schema.keys() {
            if let Some(default) = key.default {
                let value = parse_value(default).unwrap_or(SettingValue::Text(default.to_string()));
                put(&mut settings.values, key, key.name, value, Origin::Default)?;
            }
        }
        settings.merge(document, document.root())?;
        Ok(settings)
    }

    /// The keys that the settings may have.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// The same settings with the keys of a schema, which takes the values that were kept as they were written.
    ///
    /// # Errors
    /// A key that the schema does not have, a value that the key does not take.
    pub fn under(mut self, schema: &'static Schema) -> Result<Settings> {
        let read = |values: &mut Values, prefix: &str| {
            let kept = values.clone().into_iter().filter(|(name, _)| self.schema.keeps(name));
            kept.into_iter()
                .try_for_each(|(name, (value, origin))| set((schema, values), prefix, &name, Some(value), origin))
        };
        read(&mut self.values, "")?;
        for phase in &mut self.phases {
            read(&mut phase.changes, &format!("{}.{}.", phase_tables::KEY, phase.name))?;
        }
        self.schema = schema;
        Ok(self)
    }

    /// Puts the values of a document's table over the settings; training phases in it replace the present ones.
    ///
    /// # Errors
    /// An unknown key, a value that the key does not take, a training phase without a name.
    pub fn merge(&mut self, document: &Document<'_>, table: &DeTable<'_>) -> Result<()> {
        let (mut settings, mut listed) = (table.clone(), None);
        if let Some(list) = settings.remove(phase_tables::KEY) {
            listed = Some(phase_tables::read(self.schema, document, &list)?);
        }
        let mut found = leaves(&settings, &|name| self.schema.has(name));
        // `optimizer.kind` removes keys of the optimizer before, so it comes first.
        found.sort_by_key(|leaf| leaf.name != optimizer::KIND);
        for leaf in found {
            let value = leaf
                .value
                .map(|value| self.value_in_folder(&leaf.name, value, document.folder()))
                .transpose()?;
            set(
                (self.schema, &mut self.values),
                "",
                &leaf.name,
                value,
                document.origin(leaf.at),
            )?;
        }
        if let Some(listed) = listed {
            self.phases = listed;
        }
        Ok(())
    }

    /// Takes `KEY=VALUE` from `--set`; `phase.NAME.KEY=VALUE` is for a training phase. A value that is no TOML is a
    /// text.
    ///
    /// # Errors
    /// A missing `=`, an unknown training phase or key, a value that the key does not take.
    pub fn set_flag(&mut self, assignment: &str) -> Result<()> {
        let origin = Origin::Flag(format!("--set {assignment}"));
        let (name, value) = assignment.split_once('=').ok_or_else(|| {
            Error::user(format!(
                "--set {assignment} has no '='; write KEY=VALUE, such as train.lr=0.001"
            ))
        })?;
        let (name, value) = (name.trim(), value.trim());
        let value = parse_value(value).unwrap_or_else(|| SettingValue::Text(value.to_string()));
        self.set_at(name, value, origin)
    }

    /// Sets the value of a key; `phase.NAME.KEY` is the key of a training phase.
    ///
    /// # Errors
    /// An unknown training phase or key, a value that the key does not take.
    pub fn set_at(&mut self, name: &str, value: SettingValue, origin: Origin) -> Result<()> {
        match phase_tables::split(name) {
            Some((phase, key)) => {
                let phase = phase_tables::find(&mut self.phases, phase, &origin)?;
                phase.set(self.schema, key, Some(value), origin)
            }
            None => set((self.schema, &mut self.values), "", name, Some(value), origin),
        }
    }

    /// Takes the value of a flag of its own, such as `--steps 100`; `flag` names it in messages.
    ///
    /// # Errors
    /// A value that the key does not take.
    pub fn set_named(&mut self, name: &str, value: SettingValue, flag: String) -> Result<()> {
        set(
            (self.schema, &mut self.values),
            "",
            name,
            Some(value),
            Origin::Flag(flag),
        )
    }

    /// Where the value of a key comes from; the default where it has none.
    pub fn origin(&self, name: &str) -> Origin {
        self.values
            .get(name)
            .map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    /// The keys that flags have set, with the flags.
    pub fn flags(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(|(name, (_, origin))| match origin {
            Origin::Flag(flag) => Some((&name[..], &flag[..])),
            _ => None,
        })
    }

    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&SettingValue> {
        self.values.get(name).map(|(value, _)| value)
    }

    /// The value of a setting and its place, for messages: `train.lr = 0.5 (my.toml line 2)`.
    pub fn place(&self, name: &str) -> String {
        let value = self.get(name).map(|value| format!(" = {value}")).unwrap_or_default();
        format!("{name}{value} ({})", self.origin(name))
    }

    /// The values of a key: its own, and those of training phases.
    pub(crate) fn all_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a SettingValue> {
        let of_phases = self.phases.iter().filter_map(move |phase| phase.changes.get(name));
        self.values
            .get(name)
            .into_iter()
            .chain(of_phases)
            .map(|(value, _)| value)
    }

    /// The value of a key that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(SettingValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The same settings with relative paths replaced by absolute ones; a path that leads nowhere stays as it is, for
    /// the message that will name it.
    pub fn with_absolute_paths(mut self) -> Settings {
        for key in self.schema.keys() {
            if let ValueKind::Path(words) = key.kind
                && let Some((SettingValue::Text(path), _)) = self.values.get_mut(key.name)
                && !words.contains(&path.as_str())
                && (Path::new(path).exists() || is_pattern(Path::new(path)))
                && let Ok(absolute) = std::path::absolute(&*path)
                && let Some(absolute) = absolute.to_str()
            {
                *path = absolute.to_string();
            }
        }
        self
    }

    /// The settings that differ from `other`, as `KEY = VALUE`, without the settings of training phases.
    pub fn beyond(&self, other: &Settings) -> Vec<String> {
        let own = self.schema.names(&[&self.values]).into_iter();
        own.filter(|name| other.get(name) != self.get(name))
            .map(|name| format!("`{name} = {}`", self.values[name].0))
            .collect()
    }

    /// All settings with a value: their names, `phase.NAME.KEY` for training phases, and values as TOML.
    pub fn entries(&self) -> Vec<(String, String)> {
        let own = |prefix: String, values: &Values| -> Vec<(String, String)> {
            let names = self.schema.names(&[values]).into_iter();
            names
                .map(|name| (format!("{prefix}{name}"), values[name].0.to_string()))
                .collect()
        };
        let mut entries = own(String::new(), &self.values);
        for phase in &self.phases {
            entries.extend(own(format!("{}.{}.", phase_tables::KEY, phase.name), &phase.changes));
        }
        entries
    }

    /// All settings as TOML that [`Settings::parse`] reads back.
    pub fn to_toml(&self) -> String {
        let mut text = tables_of(self.schema, &self.values, "");
        for phase in &self.phases {
            text.push_str(&phase.to_toml(self.schema));
        }
        text
    }

    /// The first key in which `other` differs, leaving out the keys in `free`, also in training phases.
    pub fn difference(&self, other: &Settings, free: &[&str]) -> Option<(String, String, String)> {
        let mut changes = self.changes(other).into_iter();
        let is_free = |name: &str| free.contains(&phase_tables::split(name).map_or(name, |(_, key)| key));
        changes.find(|(name, _, _)| !is_free(name))
    }

    /// All keys in which `other` differs, with both values as TOML (`nothing` where there is none); keys of training
    /// phases as `phase.NAME.KEY`.
    pub fn changes(&self, other: &Settings) -> Vec<(String, String, String)> {
        let mut all = changes(self.schema, "", &self.values, &other.values);
        all.extend(phase_tables::changes(self.schema, &self.phases, &other.phases));
        all
    }

    /// The value of a key in a file: a relative path starts at the folder of the file.
    ///
    /// # Errors
    /// A path that is no text.
    fn value_in_folder(&self, name: &str, value: SettingValue, folder: Option<&Path>) -> Result<SettingValue> {
        let Some((folder, ValueKind::Path(words))) = folder.zip(self.schema.find(name).ok().map(|key| key.kind)) else {
            return Ok(value);
        };
        Ok(match fit(ValueKind::Path(words), value) {
            Some(SettingValue::Text(path)) if !path.is_empty() && !words.contains(&path.as_str()) => {
                SettingValue::of_path(&folder.join(path))?
            }
            Some(value) => value,
            None => SettingValue::Text(String::new()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: &str = "[train]\nlr = 1\nbatch = 16\nschedule = \"cosine\"\n\n[data]\nshuffle = false\n";

    fn error(text: &str) -> String {
        Settings::parse(text, "my.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_recipe_goes_over_the_defaults_and_flags_go_over_the_recipe() {
        let mut settings = Settings::parse(RECIPE, "my.toml").unwrap();
        let get = |name| settings.get(name).cloned().unwrap();
        assert_eq!(get("train.lr"), SettingValue::Number(1.0));
        assert_eq!(get("train.batch"), SettingValue::Count(16));
        assert_eq!(get("train.accumulate"), SettingValue::Count(1));
        assert_eq!(get("data.shuffle"), SettingValue::Switch(false));
        assert_eq!(settings.origin("train.batch"), Origin::Line("my.toml".into(), 3));
        settings.set_flag("train.batch = 8").unwrap();
        settings.set_flag("train.schedule=linear").unwrap();
        settings.set_flag("train.lr=5e-4").unwrap();
        settings.set_flag("data.task=\"STS-B\"").unwrap();
        settings.set_flag("data.path=2024").unwrap();
        settings.set_flag("model.init=a/b c.d").unwrap();
        settings.set_flag("run.budget=64MiB").unwrap();
        assert_eq!(settings.get("run.budget"), Some(&SettingValue::Size(64 << 20)));
        assert_eq!(settings.get("train.batch"), Some(&SettingValue::Count(8)));
        assert_eq!(settings.text("train.schedule"), Some("linear"));
        assert_eq!(settings.get("train.lr"), Some(&SettingValue::Number(5e-4)));
        assert_eq!(settings.text("data.task"), Some("STS-B"));
        assert_eq!(settings.text("data.path"), Some("2024"));
        assert_eq!(settings.text("model.init"), Some("a/b c.d"));
        assert_eq!(settings.text("data.tokenizer"), None);
        assert_eq!(settings.origin("train.batch").to_string(), "--set train.batch = 8");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut settings = Settings::parse(RECIPE, "my.toml").unwrap();
        settings.set_flag("data.path=with \"quotes\" and \\").unwrap();
        settings.set_flag("train.lr=0.1").unwrap();
        let back = Settings::parse(&settings.to_toml(), "config.toml").unwrap();
        assert_eq!(settings.difference(&back, &[]), None);
        settings.set_flag("train.lr=0.2").unwrap();
        settings.set_flag("model.dropout=0").unwrap();
        assert_eq!(
            back.difference(&settings, &[]),
            Some(("model.dropout".into(), "nothing".into(), "0.0".into()))
        );
        assert_eq!(
            back.difference(&settings, &["model.dropout"]),
            Some(("train.lr".into(), "0.1".into(), "0.2".into()))
        );
    }

    #[test]
    fn values_of_other_jobs_are_kept_as_they_are_written() {
        let start = Settings::parse("", "config.toml").unwrap().to_toml();
        let kept = "\n[condense]\nper_class = 10\nmethod = \"dsa\"\nlambda = 2.5e-7\nepochs = \"3+1\"\n\n[search]\n\
                    width = 0.5\nbits = \"4,8\"\nunrolled = true\n";
        let phase = "\n[[phase]]\nname = \"one\"\n\n[phase.condense]\nupdates = 3\nimage_rate = 1.0\n";
        let text = format!("{start}{kept}{phase}");
        let settings = Settings::parse(&text, "config.toml").unwrap();
        assert_eq!(settings.to_toml(), text);
        assert_eq!(settings.place("condense.method"), {
            let line = start.lines().count() + 4;
            format!("condense.method = \"dsa\" (config.toml line {line})")
        });
        assert_eq!(
            settings
                .under(&CORE)
                .unwrap()
                .difference(&Settings::parse(&start, "x").unwrap(), &[]),
            Some(("condense.per_class".into(), "10".into(), "nothing".into()))
        );
    }

    #[test]
    fn mistakes_name_the_place_and_the_remedy() {
        assert_eq!(
            error("[train]\nstps = 3\n"),
            "my.toml line 2: there is no key 'train.stps'; did you mean train.steps?"
        );
        assert_eq!(
            error("[train]\nlr = \"fast\"\n"),
            "my.toml line 2: train.lr must be a number, at least 0, not \"fast\""
        );
        assert_eq!(
            error("[train]\n\nbatch = 0\n"),
            "my.toml line 3: train.batch must be a whole number, at least 1, not 0"
        );
        assert_eq!(
            error("train.batch = 1.5"),
            "my.toml line 1: train.batch must be a whole number, at least 1, not 1.5"
        );
        assert_eq!(
            error("train.batch = [1]"),
            "my.toml line 1: train.batch must be a whole number, at least 1, not [1]"
        );
        assert_eq!(
            error("model.dropout = -1"),
            "my.toml line 1: model.dropout must be a number from 0 to 1, not -1.0"
        );
        assert_eq!(
            error("model.activation = \"helu:-1\""),
            "my.toml line 1: model.activation must be one of gelu, gelu_python, gelu_new, gelu_fast, gelu_pytorch_tanh, \
             relu, relu6, silu, swish, hardswish, tanh, elu, elu:ALPHA, helu:ALPHA with a number ALPHA from 0 on, \
             not \"helu:-1\""
        );
        assert_eq!(
            error("[optimizer]\nkind = \"adan\""),
            "my.toml line 2: optimizer.kind must be one of adamw, adamw_8bit, adam, sgd, adagrad, adadelta, rmsprop, lion, \
             adafactor, not \"adan\""
        );
        assert!(error("[train\nlr = 1").starts_with("my.toml line 1 is not valid TOML ("));
        assert!(error("train = 3").starts_with("my.toml line 1: there is no key 'train'"));
        let mut settings = Settings::parse("", "my.toml").unwrap();
        let mut flag = |text| settings.set_flag(text).unwrap_err().to_string();
        assert_eq!(
            flag("train.lr"),
            "--set train.lr has no '='; write KEY=VALUE, such as train.lr=0.001"
        );
        assert_eq!(flag("lr=1"), "--set lr=1: there is no key 'lr'; did you mean train.lr?");
        assert_eq!(
            flag("train.lr=nan"),
            "--set train.lr=nan: train.lr must be a number, at least 0, not NaN"
        );
        assert_eq!(
            flag("data.shuffle=no"),
            "--set data.shuffle=no: data.shuffle must be true or false, not \"no\""
        );
        assert_eq!(
            flag("run.budget=much"),
            "--set run.budget=much: run.budget must be a size such as 512M, a share such as 80%, or auto, not \"much\""
        );
        assert!(flag("train.steps=-1").ends_with("train.steps must be a whole number, not -1.0"));
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        let recipe = "# ü 数\n[train]\nlr = 1e-3\nschedule = \"cosine\"\nbatch = 0x10\n[model]\ndropout = 0.1\n";
        let mut random = lessen_base::SplitMix64::new(1);
        for _ in 0..5_000 {
            let mut bytes = recipe.as_bytes().to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => drop(bytes.remove(at)),
                    1 => bytes.insert(at, b"[]{}=\"'#\n.,0e-x\\"[random.below(16) as usize]),
                    _ => bytes[at] = random.next_u64() as u8,
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            if let Err(error) = Settings::parse(&text, "x.toml") {
                let message = error.to_string();
                assert!(
                    message.starts_with("x.toml line ") && !message.contains('\n'),
                    "{message}"
                );
            }
        }
    }
}
