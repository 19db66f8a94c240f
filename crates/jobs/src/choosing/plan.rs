//! What is tried for data: its recipes, and the reasons.

use super::choice::{DataChoice, Plan};
use super::draft::Recipe;
use super::facts::{Answer, ExampleKind, Facts};
use super::request::{ChoiceRequest, Part};
use super::{images, tables, tags, text_alone, texts};
use crate::schema::SCHEMA;
use lessen_base::Result;
use lessen_data::look::Look;
use lessen_task::formats::held_out_by::{GROUP, TIME};

/// Rows that are enough to tell models apart by a point.
const ENOUGH_HELD_OUT: usize = 5000;

/// The plan for data that was looked at.
///
/// # Errors
/// A folder to start from that cannot be read, or has no model for the data.
pub(super) fn plan_of(look: &Look, request: &ChoiceRequest<'_>) -> Result<Plan> {
    let facts = Facts::of(look)?;
    let mut recipe = Recipe::new(&facts, request)?;
    let mut plan = Plan::default();
    plan.choices.push(hold_out(&mut recipe, &facts, request)?);
    match facts.kind {
        ExampleKind::Texts(answer) => texts::plan(&mut plan, &mut recipe, &facts, answer, request)?,
        ExampleKind::Tags => tags::plan(&mut plan, &mut recipe, &facts, request)?,
        ExampleKind::TextAlone => text_alone::plan(&mut plan, &mut recipe, &facts, request)?,
        ExampleKind::Table(answer) => tables::plan(&mut plan, &mut recipe, &facts, answer)?,
        ExampleKind::Images => images::plan(&mut plan, &mut recipe, &facts, request)?,
    }
    Ok(plan)
}

/// Chooses the examples that are held out.
///
/// # Errors
/// Flags with a mistake.
fn hold_out(recipe: &mut Recipe, facts: &Facts, request: &ChoiceRequest<'_>) -> Result<DataChoice> {
    if facts.has_dev {
        let own = DataChoice::new("validation", "the data's own", "it has a split for that", "data.dev");
        return Ok(own);
    }
    let share = match facts.rows {
        0..1000 => 0.2,
        rows if rows > 10 * ENOUGH_HELD_OUT => ENOUGH_HELD_OUT as f64 / rows as f64,
        _ => 0.1,
    };
    recipe.set("data.held_out", format!("{share:?}"));
    let (what, why) = match facts.kind {
        ExampleKind::Texts(Answer::Class) | ExampleKind::Table(Answer::Class) => ("rows", "of each class its share"),
        ExampleKind::Texts(Answer::Labels) | ExampleKind::Table(Answer::Labels) => {
            ("rows", "of each label its share, where the rarest one of a row counts")
        }
        ExampleKind::Texts(Answer::Number) | ExampleKind::Table(Answer::Number) => ("rows", "drawn at random"),
        ExampleKind::Images => ("images", "of each class its share"),
        ExampleKind::Tags => ("sentences", "drawn at random"),
        ExampleKind::TextAlone => ("text", "its end, which is continued from what was learned"),
    };
    let rows = format!("{:.1} % of the {what}", 100.0 * share);
    if let Some(key) = asked(request)? {
        return Ok(DataChoice::new(
            "validation",
            rows,
            format!("as {key} says"),
            "data.held_out",
        ));
    }
    let is_of_rows = matches!(facts.kind, ExampleKind::Texts(_) | ExampleKind::Table(_));
    let (value, why, key) = match (&facts.group, &facts.time) {
        (Some(column), _) if is_of_rows => {
            recipe.text(GROUP, column);
            let why = format!("rows of one {column} are alike, so that they are held out together");
            (format!("about {rows}, by {column}"), why, GROUP)
        }
        (None, Some(column)) if is_of_rows => {
            recipe.text(TIME, column);
            let why = "rows to be answered come after those that are learned, as these do".to_string();
            (format!("the latest {rows}, by {column}"), why, TIME)
        }
        _ => (rows, why.to_string(), ""),
    };
    let keys: Vec<&str> = ["data.held_out", key]
        .into_iter()
        .filter(|key| !key.is_empty())
        .collect();
    Ok(DataChoice::new("validation", value, why, &keys.join(", ")))
}

/// The key by which flags say what is held out, if they do.
fn asked(request: &ChoiceRequest<'_>) -> Result<Option<&'static str>> {
    let mut flags = SCHEMA.parse("", "flags")?;
    (request.over)(&mut flags, Part::Network)?;
    Ok([GROUP, TIME].into_iter().find(|key| flags.get(key).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_data::look::LookOptions;
    use lessen_task::formats::KnownModel;
    use lessen_task::recipe::config::Config;
    use lessen_task::recipe::settings::Settings;
    use lessen_task::recipe::value::SettingValue;
    use std::collections::BTreeSet;
    use std::fs;

    /// The choice of what is held out of a file, and its first recipe. `flags` are keys and columns.
    fn chosen(name: &str, text: &str, flags: &[(&str, &str)]) -> (DataChoice, Settings, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join(name);
        fs::write(&data, text).unwrap();
        let over = |settings: &mut Settings, _: Part| {
            let mut flags = flags.iter();
            flags.try_for_each(|(key, text)| {
                settings.set_named(key, SettingValue::Text(text.to_string()), "--set".into())
            })
        };
        let request = ChoiceRequest {
            data: data.clone(),
            out: dir.path().join("run"),
            minutes: 1.0,
            init: None,
            resumes: false,
            over: &over,
        };
        let plan = plan_of(&Look::of(&data, &LookOptions::default()).unwrap(), &request).unwrap();
        let mut settings = Settings::parse(&plan.candidates[0].recipes[0], "plan").unwrap();
        over(&mut settings, Part::Linear).unwrap();
        (plan.choices[0].clone(), settings, dir)
    }

    fn column(settings: &Settings, key: &str) -> Option<String> {
        settings.get(key).map(SettingValue::joined)
    }

    /// Mails of 12 users on 24 days.
    fn mails() -> String {
        let row = |i: usize| {
            let (word, class) = [("meeting", "ham"), ("prize", "spam")][i % 2];
            let day = 1 + i * 7 % 24;
            format!(
                "our {word} at noon of user u{},u{},2024-01-{day:02},{class}\n",
                i * i % 23,
                i * i % 23
            )
        };
        let rows = (0..240).map(row);
        std::iter::once("text,user,date,label\n".to_string())
            .chain(rows)
            .collect()
    }

    #[test]
    fn rows_of_a_group_are_held_out_together() {
        let (choice, settings, _dir) = chosen("mail.csv", &mails(), &[]);
        assert_eq!(
            (&choice.value[..], &choice.why[..], &choice.key[..]),
            (
                "about 20.0 % of the rows, by user",
                "rows of one user are alike, so that they are held out together",
                "data.held_out, data.group_by"
            )
        );
        assert_eq!(column(&settings, GROUP), Some("user".to_string()));
        assert_eq!(column(&settings, TIME), None);
        let config = Config::of(settings, None).unwrap();
        let corpus = config
            .data
            .format
            .format()
            .read(&config, &KnownModel::default(), None)
            .unwrap();
        let users = |split: &str| -> BTreeSet<String> {
            let texts = corpus.labelled_texts(split).unwrap().unwrap();
            texts
                .map(|row| row.unwrap().0.0.rsplit_once(' ').unwrap().1.to_string())
                .collect()
        };
        let (train, dev) = (users("train"), users("dev"));
        assert!(train.is_disjoint(&dev) && !dev.is_empty(), "{train:?} {dev:?}");
        assert_eq!(train.len() + dev.len(), 12);
    }

    #[test]
    fn the_latest_rows_are_held_out_where_they_have_no_group() {
        let no_user = mails().replace("user,", "writer,");
        let (choice, settings, _dir) = chosen("mail.csv", &no_user, &[]);
        assert_eq!(choice.value, "the latest 20.0 % of the rows, by date");
        assert_eq!(
            (column(&settings, TIME), column(&settings, GROUP)),
            (Some("date".to_string()), None)
        );
        let no_time = no_user.replace("date,", "day,");
        let (choice, settings, _dir) = chosen("mail.csv", &no_time, &[]);
        assert_eq!(
            (&choice.why[..], &choice.key[..]),
            ("of each class its share", "data.held_out")
        );
        assert_eq!((column(&settings, TIME), column(&settings, GROUP)), (None, None));
    }

    #[test]
    fn what_is_held_out_is_said_of_numbers_and_of_text_alone() {
        let numbers: String = (0..60)
            .map(|i| format!("a film that was seen number {i},{}.5\n", i % 5))
            .collect();
        let (choice, ..) = chosen("films.csv", &format!("text,stars\n{numbers}"), &[]);
        assert_eq!(
            (&choice.value[..], &choice.why[..]),
            ("20.0 % of the rows", "drawn at random")
        );
        let (choice, ..) = chosen("book.txt", &"It was a dark and stormy night.\n".repeat(60), &[]);
        assert_eq!(
            (&choice.value[..], &choice.why[..]),
            (
                "20.0 % of the text",
                "its end, which is continued from what was learned"
            )
        );
    }

    #[test]
    fn flags_go_before_the_choice() {
        let (choice, settings, _dir) = chosen("mail.csv", &mails(), &[(TIME, "date")]);
        assert_eq!(
            (choice.value, choice.why),
            ("20.0 % of the rows".into(), "as data.time_by says".into())
        );
        assert_eq!(
            (column(&settings, TIME), column(&settings, GROUP)),
            (Some("date".to_string()), None)
        );
        // An empty name is no column.
        let (_, settings, _dir) = chosen("mail.csv", &mails(), &[(GROUP, "")]);
        assert_eq!(column(&settings, TIME), None);
        assert!(Config::of(settings, None).is_ok());
    }

    #[test]
    fn a_time_of_a_table_stays_an_input() {
        let row = |i: usize| {
            format!(
                "{},{},2024-01-{:02},{}\n",
                i % 9,
                i * 5 % 7,
                1 + i % 28,
                i % 9 + i * 5 % 7
            )
        };
        let rows: String = (0..84).map(row).collect();
        let (choice, settings, _dir) = chosen("rooms.csv", &format!("rooms,floor,created,price\n{rows}"), &[]);
        assert_eq!(choice.value, "the latest 20.0 % of the rows, by created");
        let config = Config::of(settings, None).unwrap();
        let corpus = config
            .data
            .format
            .format()
            .read(&config, &KnownModel::default(), None)
            .unwrap();
        let reader = corpus.reader(&config).unwrap();
        assert!(
            reader
                .table()
                .unwrap()
                .columns
                .iter()
                .any(|column| column.name == "created")
        );
        let lines = corpus.show("dev", &(0..18).collect::<Vec<_>>()).unwrap();
        // The last days of three months: those of 23 to 28.
        assert!(lines.iter().all(|line| {
            let line: usize = line.strip_prefix("line ").unwrap().parse().unwrap();
            (line - 2) % 28 >= 22
        }));
    }
}
