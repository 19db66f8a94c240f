//! Tests of whole data sets whose rows are held out by a column.

use crate::HeldOutBy;
use crate::labelled::{self, Columns, Record};
use crate::table::{Table, TableOptions};
use crate::{Dataset, Labels, Problem, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn group(column: &str) -> HeldOutBy {
    HeldOutBy::Group(column.to_string())
}

fn time(column: &str) -> HeldOutBy {
    HeldOutBy::Time(column.to_string())
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn options(by: HeldOutBy) -> labelled::Options {
    labelled::Options {
        columns: Columns {
            held_out_by: by,
            ..Columns::default()
        },
        held_out: 0.25,
        ..labelled::Options::default()
    }
}

fn table_options(by: HeldOutBy) -> TableOptions {
    TableOptions {
        held_out_by: by,
        held_out: 0.25,
        ..TableOptions::default()
    }
}

/// The error of labelled texts in a file.
fn refused(name: &str, text: &str, by: HeldOutBy) -> String {
    let dir = folder(&[(name, text)]);
    let path = dir.path().join(name);
    let error = labelled::read(&path, &options(by)).unwrap_err().to_string();
    error.replace(&format!("{}/", dir.path().display()), "")
}

fn texts(data: &Dataset, split: &str) -> Result<Vec<String>> {
    data.split(split)?.texts().map(|text| Ok(text?.0)).collect()
}

/// Users of 1 to 5 mails each, in turns: number, user and class of each.
fn mails() -> Vec<(usize, usize, &'static str)> {
    let user = |i: usize| i * i % 29;
    (0..120).map(|i| (i, user(i), ["ham", "spam"][i % 2])).collect()
}

/// The mails in all formats with columns.
fn files_of_mails() -> [(&'static str, String); 3] {
    let rows = |head: &str, row: &dyn Fn(usize, usize, &str) -> String| -> String {
        let rows = mails().into_iter().map(|(i, user, class)| row(i, user, class));
        std::iter::once(head.to_string()).chain(rows).collect()
    };
    [
        (
            "a.csv",
            rows("user,text,label\n", &|i, user, class| {
                format!("u{user},\"mail, {i}\",{class}\n")
            }),
        ),
        (
            "a.tsv",
            rows("text\tlabel\tuser\n", &|i, user, class| {
                format!("mail, {i}\t{class}\tu{user}\n")
            }),
        ),
        (
            "a.jsonl",
            rows("", &|i, user, class| {
                format!("{{\"text\": \"mail, {i}\", \"user\": \"u{user}\", \"label\": \"{class}\"}}\n")
            }),
        ),
    ]
}

#[test]
fn mails_of_a_user_are_all_trained_on_or_all_held_out() {
    let user_of = |text: &String| {
        let number: usize = text.strip_prefix("mail, ").unwrap().parse().unwrap();
        mails()[number].1
    };
    let mut found = Vec::new();
    for (name, text) in files_of_mails() {
        let dir = folder(&[(name, &text)]);
        for problem in [Problem::SingleLabel, Problem::MultiLabel] {
            let options = labelled::Options {
                problem,
                ..options(group("user"))
            };
            let data = labelled::read(&dir.path().join(name), &options).unwrap();
            let (train, dev) = (texts(&data, "train").unwrap(), texts(&data, "dev").unwrap());
            let of = |texts: &[String]| -> BTreeSet<usize> { texts.iter().map(user_of).collect() };
            assert!(of(&train).is_disjoint(&of(&dev)), "{name}");
            assert_eq!(train.len() + dev.len(), 120);
            assert!(dev.len().abs_diff(30) <= 8, "{name}: {}", dev.len());
            let remark = format!(
                "there is no dev file: {} of 120 examples are kept for validation, all rows of {} of the 15 values of the \
                 column 'user' (data.group_by)",
                dev.len(),
                of(&dev).len()
            );
            assert!(data.remarks.contains(&remark), "{:?}", data.remarks);
            found.push(dev);
        }
    }
    assert!(found.iter().all(|dev| *dev == found[0]));
    // Classes that are known are looked up in the same pass.
    let known = labelled::Options {
        classes: Some(vec!["spam".into(), "ham".into()]),
        ..options(group("user"))
    };
    let dir = folder(&[("a.csv", &files_of_mails()[0].1)]);
    let data = labelled::read(&dir.path().join("a.csv"), &known).unwrap();
    assert_eq!(texts(&data, "dev").unwrap(), found[0]);
    let other_seed = labelled::Options {
        held_out_seed: 2,
        ..known
    };
    let data = labelled::read(&dir.path().join("a.csv"), &other_seed).unwrap();
    assert_ne!(texts(&data, "dev").unwrap(), found[0]);
}

#[test]
fn the_latest_texts_are_held_out() {
    let rows = [
        ("c", "2024-03-03"),
        ("a", "2024-01-01"),
        ("d", "2024-03-03 08:00"),
        ("b", "2024-02-02"),
    ];
    let text: String = rows
        .iter()
        .map(|(text, day)| format!("{text},{day},{}\n", text.len() % 2))
        .collect();
    let text = text.replacen("c,2024-03-03,1", "c,2024-03-03,0", 1);
    let dir = folder(&[("a.csv", &format!("text,day,label\n{text}"))]);
    let read = |share| {
        let options = labelled::Options {
            held_out: share,
            ..options(time("day"))
        };
        labelled::read(&dir.path().join("a.csv"), &options).unwrap()
    };
    assert_eq!(texts(&read(0.25), "dev").unwrap(), ["d"]);
    let data = read(0.5);
    assert_eq!(texts(&data, "train").unwrap(), ["a", "b"]);
    assert_eq!(texts(&data, "dev").unwrap(), ["c", "d"]);
    assert_eq!(data.dev.labels, Labels::Classes(vec![0, 1]));
    assert_eq!(
        data.remarks,
        [
            "there is no dev file: 2 of 4 examples are kept for validation, the latest by the column 'day' (data.time_by)"
        ]
    );
}

#[test]
fn columns_that_hold_out_nothing_are_refused_with_the_place() {
    let head = "text,user,day,label\n";
    let rows = format!("{head}a,1,2024-01-01,x\nb,1,2024-01-01,y\nc,1,2024-01-01,x\n");
    assert_eq!(
        refused("a.csv", &rows, group("person")),
        "a.csv line 1 has no column 'person' (data.group_by); its columns are 'text', 'user', 'day', 'label'"
    );
    assert_eq!(
        refused("a.csv", &rows, group("user")),
        "a.csv has the same value in every row of the column 'user' (data.group_by), so that nothing can be held out by it; \
         name another column, or leave the key out"
    );
    assert_eq!(
        refused("a.csv", &rows, time("day")),
        "a.csv has no two times that differ in the column 'day' (data.time_by), so that no rows are the latest; name \
         another column, or leave the key out"
    );
    assert_eq!(
        refused("a.csv", &format!("{head}a,1,2024-01-01,x\nb,1,soon,y\n"), time("day")),
        "a.csv line 3 has 'soon' in the column 'day' (data.time_by), which is no date as those before; write times such as \
         2024-03-01 12:30, or numbers, or name another column"
    );
    assert_eq!(
        refused("a.csv", &rows, group("label")),
        "a.csv line 1 has its labels in the column 'label' (data.group_by), by which nothing can be held out; name another \
         column, or leave the key out"
    );
    let without = "has texts and labels alone and no column 'user' (data.group_by); write .csv, .tsv, .jsonl or .parquet \
                   with it, or leave the key out";
    assert_eq!(
        refused("a.txt", "a\tx\nb\ty\n", group("user")),
        format!("a.txt {without}")
    );
    let dir = folder(&[("pos/1.txt", "a"), ("neg/1.txt", "b")]);
    let error = labelled::read(dir.path(), &options(group("user")))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with(without), "{error}");
}

#[test]
fn a_split_for_validation_goes_before_columns() {
    let rows = "text,user,label\na,1,x\nb,2,y\n";
    let dir = folder(&[("train.csv", rows), ("dev.csv", "text,label\nc,x\n")]);
    let data = labelled::read(dir.path(), &options(group("user"))).unwrap();
    assert_eq!(
        (data.train.len(), texts(&data, "dev").unwrap()),
        (2, vec!["c".to_string()])
    );
    let remark = "the data has a split for validation, so that data.group_by holds out nothing";
    assert_eq!(data.remarks, [remark]);
    let table = Table::read(dir.path(), &table_options(group("user")));
    assert!(
        table
            .unwrap_err()
            .to_string()
            .contains("dev.csv has no column 'user' (data.inputs)")
    );
    // All examples are evaluated, and no column is needed.
    let whole = labelled::Options {
        whole: true,
        ..options(time("day"))
    };
    let data = labelled::read(&dir.path().join("train.csv"), &whole).unwrap();
    assert!(data.is_whole && data.remarks.is_empty());
}

#[test]
fn columns_of_tables_without_names_are_numbered() {
    let rows: String = (0..8).map(|i| format!("{},text {i},{}\n", i / 2, i % 2)).collect();
    let dir = folder(&[("a.csv", &rows)]);
    let read = |by: &str| {
        let mut options = options(group(by));
        (options.columns.text, options.columns.label) = (Some("2".into()), Some("3".into()));
        labelled::read(&dir.path().join("a.csv"), &options)
    };
    let dev = texts(&read("1").unwrap(), "dev").unwrap();
    assert_eq!(dev.len(), 2);
    let first: usize = dev[0].strip_prefix("text ").unwrap().parse().unwrap();
    assert_eq!((first % 2, &dev[1]), (0, &format!("text {}", first + 1)));
    let error = read("user").unwrap_err().to_string();
    assert!(
        error.contains("some of its columns are given by numbers, but not data.group_by"),
        "{error}"
    );
}

/// Patients with visits, of which one has no label: age, patient, day, label.
fn visits(dir: &Path) {
    let mut text = String::from("age;patient;day;ill\n");
    for i in 0..60 {
        let label = if i == 7 { "" } else { ["yes", "no"][i % 3 % 2] };
        text.push_str(&format!(
            "{};{};2024-{:02}-{:02};{label}\n",
            20 + i % 37,
            i % 12 + 100,
            12 - i / 5,
            1 + i % 28
        ));
    }
    fs::write(dir.join("a.csv"), text).unwrap();
}

/// The lines of a split.
fn lines(table: &Table, split: &str) -> Vec<usize> {
    let part = table.split(split).unwrap();
    (0..part.len()).map(|row| part.line(row)).collect()
}

#[test]
fn rows_of_tables_are_held_out_by_groups_and_times() {
    let dir = tempfile::tempdir().unwrap();
    visits(dir.path());
    let path = dir.path().join("a.csv");
    let table = Table::read(&path, &table_options(group("patient"))).unwrap();
    let patients = |lines: Vec<usize>| -> BTreeSet<usize> { lines.iter().map(|line| (line - 2) % 12).collect() };
    let (train, dev) = (patients(lines(&table, "train")), patients(lines(&table, "dev")));
    assert!(train.is_disjoint(&dev) && train.len() + dev.len() == 12);
    assert_eq!((dev.len(), table.train.len() + table.dev.len()), (3, 59));
    // Held-out patients are others, so that nothing is learnt from who a patient is, but where it is asked for.
    let names = |table: &Table| -> Vec<String> { table.schema.columns.iter().map(|own| own.name.clone()).collect() };
    assert_eq!(names(&table), ["age", "day"]);
    let asked = TableOptions {
        inputs: Some(vec!["patient".into()]),
        ..table_options(group("patient"))
    };
    assert_eq!(names(&Table::read(&path, &asked).unwrap()), ["patient"]);

    // The first rows are of the latest month, and the day stays an input.
    let table = Table::read(&path, &table_options(time("day"))).unwrap();
    let day = |line: &usize| (12 - (line - 2) / 5, (line - 2) % 28);
    let (train, dev) = (lines(&table, "train"), lines(&table, "dev"));
    assert!(dev.iter().map(day).min() > train.iter().map(day).max());
    assert_eq!(dev.len(), 15);
    assert!(names(&table).contains(&"day".to_string()));
    assert_eq!(table, Table::read(&path, &table_options(time("day"))).unwrap());

    let refused = |by: HeldOutBy| {
        let error = Table::read(&path, &table_options(by)).unwrap_err().to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    };
    assert_eq!(
        refused(time("when")),
        "a.csv has no column 'when' (data.time_by); its columns are 'age', 'patient', 'day', 'ill'"
    );
    assert!(refused(group("ill")).starts_with("a.csv has its labels in the column 'ill' (data.group_by)"));
}

#[test]
fn other_columns_change_no_record() {
    let dir = folder(&[("a.csv", "text,user,label\na,1,x\n")]);
    let columns = options(group("nobody")).columns;
    let rows: Result<Vec<(_, Record)>> = labelled::texts(&dir.path().join("a.csv"), &columns).collect();
    assert_eq!(rows.unwrap()[0].1.cells().unwrap(), ["a", "1", "x"]);
}
