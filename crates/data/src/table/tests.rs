//! Tests of whole tables.

use super::*;
use crate::{LabelKind, Labels, Problem, Result};
use std::fs;
use std::path::PathBuf;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn read(name: &str, text: &str, options: &TableOptions) -> Result<Table> {
    let dir = folder(&[(name, text)]);
    Table::read(&dir.path().join(name), options)
}

fn refused(name: &str, text: &str, options: &TableOptions) -> String {
    let dir = folder(&[(name, text)]);
    let message = Table::read(&dir.path().join(name), options).unwrap_err().to_string();
    message.replace(&format!("{}/", dir.path().display()), "")
}

fn whole() -> TableOptions {
    TableOptions {
        whole: true,
        ..TableOptions::default()
    }
}

fn rows(part: &TablePart) -> Vec<&[f32]> {
    (0..part.len()).map(|row| part.row(row)).collect()
}

/// People with a missing age, cities, dates, one country, and names that are all different.
const PEOPLE: &str = "id;name;age;city;since;country;bought\n\
    1;\"Ann; A\";20;Oslo;2024-01-01;NO;yes\n\
    2;Bob;;Rome;2024-01-03;NO;no\n\
    3;Cyd;40;Oslo;2024-01-05;NO;yes\n\
    4;Dan;NA;Rome;2024-01-07;NO;no\n\
    5;Eve;30;Bern;2024-01-09;NO;no\n\
    6;Fay;30;Oslo;2024-01-11;NO;?\n\
    7;Gus;30;Oslo;2024-01-13;NO;yes\n\
    8;Hal;30;Rome;2024-01-15;NO;no\n\
    9;Ida;30;?;2024-01-17;NO;no\n";

#[test]
fn a_table_of_everything_is_read_as_its_columns_say() {
    let table = read("people.csv", PEOPLE, &whole()).unwrap();
    assert_eq!(table.target, LabelKind::Classes(vec!["no".into(), "yes".into()]));
    assert_eq!(table.train.labels(), &Labels::Classes(vec![1, 0, 1, 0, 0, 1, 0, 0]));
    assert!(table.is_whole && table.dev == table.train && table.test.is_none());
    let names = [
        "age",
        "age is missing",
        "city=Oslo",
        "city=Rome",
        "city is another value",
        "since",
    ];
    assert_eq!(table.schema.element_names(), names);
    assert_eq!(table.schema.label, "bought");
    let left_out: Vec<&str> = table.left_out.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(left_out, ["id", "name", "country"]);
    // Ages of the rows with a label: 20, 40, 30, 30, 30, 30; their variance is 200/6.
    let unit = (200.0f32 / 6.0).sqrt().recip() * 10.0;
    let close = |row: usize, expected: [f32; 5]| {
        let found = table.train.row(row);
        let far = found
            .iter()
            .zip(expected)
            .any(|(found, expected)| (found - expected).abs() > 1e-5);
        assert!(!far, "{found:?} {expected:?}");
    };
    close(0, [-unit, 0.0, 1.0, 0.0, 0.0]);
    close(1, [0.0, 1.0, 0.0, 1.0, 0.0]);
    close(2, [unit, 0.0, 1.0, 0.0, 0.0]);
    close(7, [0.0, 0.0, 0.0, 0.0, 1.0]);
    let dates: Vec<f32> = rows(&table.train).iter().map(|row| row[5]).collect();
    assert!(dates.is_sorted() && dates[0] < -1.0);
    assert_eq!((table.train.line(4), table.train.line(5), table.skipped), (6, 8, 1));
    let remarks = table.remarks.join("\n");
    for part in [
        "the column 'bought' is learnt: it is the last column (data.label)",
        "1 row has no value in the column 'bought' and is left out, such as ",
        "people.csv line 7",
        "columns are left out: 'id' (its name says that it numbers the rows), 'name' (words of which all are \
         different), 'country' (one value in all rows)",
    ] {
        assert!(remarks.contains(part), "{remarks}");
    }
}

#[test]
fn the_same_table_in_other_formats_is_the_same() {
    let csv = read("a.csv", PEOPLE, &whole()).unwrap();
    let plain = PEOPLE.replace("\"Ann; A\"", "Ann");
    let tsv = read("a.tsv", &plain.replace(';', "\t"), &whole()).unwrap();
    let names: Vec<&str> = plain.lines().next().unwrap().split(';').collect();
    let object = |line: &str| {
        let fields = names.iter().zip(line.split(';')).map(|(name, cell)| match cell {
            "" | "NA" | "?" => format!("\"{name}\":null"),
            number if number.parse::<f64>().is_ok() => format!("\"{name}\":{number}"),
            word => format!("\"{name}\":\"{word}\""),
        });
        format!("{{{}}}\n", fields.collect::<Vec<_>>().join(","))
    };
    let json: String = plain.lines().skip(1).map(object).collect();
    let json = read("a.jsonl", &json, &whole()).unwrap();
    assert_eq!((&tsv.schema, tsv.train.digest()), (&csv.schema, csv.train.digest()));
    assert_eq!((&json.schema, json.train.digest()), (&csv.schema, csv.train.digest()));
    assert_eq!(json.train.line(0), 1);
}

#[test]
fn the_schema_is_of_training_rows_alone_and_the_share_is_of_every_class() {
    let lines: String = (0..200)
        .map(|i| format!("{},{}\n", i * i, if i % 4 == 0 { "a" } else { "b" }))
        .collect();
    let text = format!("x,class\n{lines}");
    let table = read("a.csv", &text, &TableOptions::default()).unwrap();
    assert_eq!((table.train.len(), table.dev.len(), table.is_whole), (180, 20, false));
    let Labels::Classes(classes) = table.dev.labels() else {
        panic!("no classes")
    };
    assert_eq!(classes.iter().filter(|class| **class == 0).count(), 5);
    let mean: f32 = rows(&table.train).iter().map(|row| row[0]).sum::<f32>() / 180.0;
    assert!(mean.abs() < 1e-5, "{mean}");
    let again = read("a.csv", &text, &TableOptions::default()).unwrap();
    assert_eq!(
        (again.train.digest(), again.dev.digest()),
        (table.train.digest(), table.dev.digest())
    );
    let other = TableOptions {
        held_out_seed: 2,
        ..TableOptions::default()
    };
    assert_ne!(read("a.csv", &text, &other).unwrap().dev.digest(), table.dev.digest());
    assert!(
        table
            .remarks
            .iter()
            .any(|remark| remark.contains("20 of 200 examples are kept for validation"))
    );
}

#[test]
fn numbers_are_learnt_standardized() {
    let lines: String = (0..30)
        .map(|i| format!("{i},{}\n", 100.0 + f64::from(i) * 0.5))
        .collect();
    let table = read("a.csv", &format!("x,price\n{lines}"), &TableOptions::default()).unwrap();
    assert_eq!(table.target, LabelKind::Score);
    let Labels::Scores(scores) = table.train.labels() else {
        panic!("no scores")
    };
    let own: Vec<f32> = scores.iter().map(|score| table.schema.standardized(*score)).collect();
    let (mean, square) = own
        .iter()
        .fold((0.0, 0.0), |(sum, square), x| (sum + x, square + x * x));
    assert!((mean / 27.0).abs() < 1e-5 && (square / 27.0 - 1.0).abs() < 1e-4);
    for (score, own) in scores.iter().zip(&own) {
        assert!((table.schema.given_back(*own) - score).abs() < 1e-4);
    }
    assert_eq!(table.metrics.len(), 4);
    // Whole numbers of few values are classes, unless they are said to be numbers.
    let stars: String = (0..30).map(|i| format!("{},{}\n", i, i % 5)).collect();
    let stars = format!("x,stars\n{stars}");
    let classes = read("a.csv", &stars, &TableOptions::default()).unwrap();
    assert!(matches!(classes.target, LabelKind::Classes(names) if names.len() == 5));
    let regression = TableOptions {
        problem: Some(Problem::Regression),
        ..TableOptions::default()
    };
    assert_eq!(read("a.csv", &stars, &regression).unwrap().target, LabelKind::Score);
}

#[test]
fn a_saved_model_reads_other_files_as_it_was_trained() {
    let dir = folder(&[
        ("train.csv", PEOPLE),
        (
            "test.csv",
            "since,city,age,bought\n2024-01-01,Oslo,20,yes\n,Paris,,no\n",
        ),
    ]);
    let table = Table::read(dir.path(), &whole()).unwrap();
    let test = table.test.as_ref().unwrap();
    assert_eq!((test.len(), test.row(0)), (2, table.train.row(0)));
    assert_eq!(test.row(1), [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(table.split("test").unwrap().labels(), &Labels::Classes(vec![1, 0]));

    table.schema.save(dir.path()).unwrap();
    let options = TableOptions {
        schema: TableSchema::load(dir.path()).unwrap(),
        classes: Some(vec!["yes".into(), "no".into()]),
        ..whole()
    };
    let path = dir.path().join("test.csv");
    let saved = Table::read(&path, &options).unwrap();
    assert_eq!((&saved.schema, saved.train.row(0)), (&table.schema, table.train.row(0)));
    assert_eq!(saved.train.labels(), &Labels::Classes(vec![0, 1]));
    fs::write(&path, "age,bought\n20,yes\n").unwrap();
    let error = Table::read(&path, &options).unwrap_err().to_string();
    assert!(
        error.contains("has no column 'city' (data.inputs); its columns are 'age', 'bought'"),
        "{error}"
    );
}

#[test]
fn rows_to_be_predicted_need_no_label_and_keep_their_columns() {
    let table = read("people.csv", PEOPLE, &whole()).unwrap();
    let dir = folder(&[
        (
            "a.csv",
            "note,city,since,age\nfirst,Oslo,2024-01-01,20\nsecond,,2024-01-03,x\n",
        ),
        (
            "a.jsonl",
            "{\"city\":\"Oslo\",\"age\":20,\"since\":\"2024-01-01\",\"note\":1.50}\n",
        ),
    ]);
    let of = |name: &str| -> Vec<TableRow> {
        let rows = TableRows::open(&dir.path().join(name), &table.schema).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let (csv, json) = (of("a.csv"), of("a.jsonl"));
    assert_eq!(
        (&csv[0].values[..], &json[0].values[..]),
        (table.train.row(0), table.train.row(0))
    );
    assert_eq!(csv[1].values[..5], [0.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(csv[1].record.cells().unwrap(), ["second", "", "2024-01-03", "x"]);
    let added = [("bought".to_string(), serde_json::json!("yes"))];
    let written = json[0].record.to_json(&added).unwrap();
    assert!(written.ends_with("\"note\":1.50,\"bought\":\"yes\"}"), "{written}");
    let text = "{\"age\": 20, \"city\": \"Oslo\", \"since\": \"2024-01-01\"}";
    let asked = TableRows::of_json(&PathBuf::from("request"), 1, text, &table.schema).unwrap();
    assert_eq!(&asked.values[..], table.train.row(0));
    let part = TableRows::of_json(&PathBuf::from("request"), 1, "{}", &table.schema).unwrap();
    assert_eq!(part.values, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn files_without_names_of_columns_are_numbered() {
    let lines: String = (0..40).map(|i| format!("{}.5,{},{}\n", i, i % 7, i % 3)).collect();
    let table = read("a.csv", &lines, &whole()).unwrap();
    assert_eq!((table.schema.label.as_str(), table.train.len()), ("3", 40));
    assert_eq!(table.schema.element_names(), ["1", "2"]);
    let dir = folder(&[("b.csv", "7.5,2\n")]);
    let rows: Vec<TableRow> = TableRows::open(&dir.path().join("b.csv"), &table.schema)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].values[0], table.train.row(7)[0]);
}

#[test]
fn what_cannot_be_learnt_is_refused_with_the_remedy() {
    let with = |target: &str| TableOptions {
        target: Some(target.to_string()),
        ..TableOptions::default()
    };
    let plain = TableOptions::default();
    assert_eq!(
        refused("a.csv", "x,y\n1,a\n2,b\n", &with("z")),
        "a.csv has no column 'z' (data.label); its columns are 'x', 'y'"
    );
    assert!(refused("a.csv", "x,y\n1,a\n2,a\n3,a\n", &plain).contains("a.csv has only one class"));
    assert_eq!(
        refused("a.csv", "id,x,y\n1,5,a\n2,5,b\n3,5,b\n", &plain),
        "a.csv has no column to learn 'y' from: 'id' (its name says that it numbers the rows), 'x' (one value in all \
         rows); add columns of numbers or categories, or name some with data.inputs"
    );
    let numbers = TableOptions {
        problem: Some(Problem::Regression),
        ..with("y")
    };
    assert_eq!(
        refused("a.csv", "x,y\n1,2\n2,many\n", &numbers),
        "a.csv line 3 has 'many' in the column 'y', which is no number; write one such as 3.5"
    );
    assert!(refused("a.csv", "x,y\n1,\n2,NA\n", &numbers).contains("has no row with a value in 'y'"));
    assert!(refused("a.csv", "x,x,y\n1,2,a\n2,2,b\n", &plain).contains("has two columns called 'x'"));
    let itself = TableOptions {
        inputs: Some(vec!["y".into()]),
        ..with("y")
    };
    assert!(refused("a.csv", "x,y\n1,a\n2,b\n", &itself).contains("data.inputs has 'y', the column to be learnt"));
}
