//! Tests of whole looks.

use super::*;
use crate::images::{Image, png};
use std::fs;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn look_with(name: &str, text: &str, options: &LookOptions) -> Look {
    let dir = folder(&[(name, text)]);
    let mut look = Look::of(&dir.path().join(name), options).unwrap();
    let at = format!("{}/", dir.path().display());
    for sentence in look
        .problems
        .iter_mut()
        .chain(&mut look.blocking)
        .chain([&mut look.path])
    {
        *sentence = sentence.replace(&at, "");
    }
    look
}

fn look(name: &str, text: &str) -> Look {
    look_with(name, text, &LookOptions::default())
}

fn roles(look: &Look) -> Vec<(&str, Role)> {
    look.columns
        .iter()
        .map(|column| (&column.name[..], column.role))
        .collect()
}

/// Lines `head` and what `line` makes of each number.
fn lines(head: &str, count: usize, line: impl Fn(usize) -> String) -> String {
    let lines = (0..count).map(|number| format!("{}\n", line(number)));
    std::iter::once(format!("{head}\n")).chain(lines).collect()
}

fn text_of(number: usize) -> String {
    format!("mail {number} says that word{} is here", number * 7 % 31)
}

#[test]
fn a_file_of_texts_with_usual_names_is_seen_as_it_is() {
    let text = lines("id,text,label", 60, |i| {
        format!("{i},{},{}", text_of(i), ["spam", "ham", "ham"][i % 3])
    });
    let found = look("mail.csv", &text);
    assert_eq!(
        (found.layout, found.task, found.has_pairs),
        (FileLayout::Rows, Task::Classes, false)
    );
    assert_eq!(
        roles(&found),
        [("id", Role::Id), ("text", Role::Text), ("label", Role::Label)]
    );
    assert_eq!((found.rows.train, found.rows.dev, found.settings.len()), (60, None, 0));
    let classes = found.classes.as_ref().unwrap();
    assert_eq!(classes.counts, [("ham".to_string(), 40), ("spam".to_string(), 20)]);
    assert!((classes.majority - 2.0 / 3.0).abs() < 1e-9 && (classes.rarest - 1.0 / 3.0).abs() < 1e-9);
    let texts = found.texts.as_ref().unwrap();
    assert!(texts.has_spaces && texts.words.min == 7 && texts.words.max == 7);
    assert_eq!(texts.characters.histogram.counts.iter().sum::<u64>(), 60);
    assert_eq!((found.problems.len(), &found.blocking), (0, &None));
    let json = found.to_json();
    assert_eq!(
        (&json["task"], &json["columns"][1]["role"]),
        (&"classes".into(), &"text".into())
    );
    assert_eq!(
        json["texts"]["words"]["histogram"]["counts"].as_array().unwrap().len(),
        BINS
    );
    let screen = found.to_text();
    assert!(screen.contains("labels      2: ham 66.7 %, spam 33.3 %"), "{screen}");
}

#[test]
fn columns_without_usual_names_are_found_by_their_values() {
    let text = lines("what;when;kind;n", 60, |i| {
        format!(
            "{};2024-01-{:02};{};{}",
            text_of(i),
            i % 28 + 1,
            ["a", "b"][i % 2],
            i * i
        )
    });
    let found = look("a.csv", &text);
    let expected = [
        ("what", Role::Text),
        ("when", Role::Time),
        ("kind", Role::Label),
        ("n", Role::Ignored),
    ];
    assert_eq!(roles(&found), expected);
    let settings = [("data.text", "what".to_string()), ("data.label", "kind".to_string())];
    assert_eq!(found.settings, settings);
    // Without a line of names, columns are numbered.
    let text = lines("mail zero is the first,ham", 30, |i| {
        format!("{},{}", text_of(i), ["spam", "ham"][i % 2])
    });
    let found = look("a.csv", &text);
    assert_eq!((found.rows.train, found.column(Role::Label)), (31, Some("2")));
    assert_eq!(
        found.settings,
        [("data.text", "1".to_string()), ("data.label", "2".to_string())]
    );
    // Options go before all.
    let options = LookOptions {
        label: Some("n".into()),
        ..LookOptions::default()
    };
    let text = lines("what,kind,n", 60, |i| format!("{},{},{}.5", text_of(i), i % 2, i % 9));
    let found = look_with("a.csv", &text, &options);
    assert_eq!((found.task, found.column(Role::Label)), (Task::Number, Some("n")));
    let numbers = found.numbers.unwrap();
    assert_eq!((numbers.min, numbers.max, numbers.median), (0.5, 8.5, 4.5));
    let options = LookOptions {
        label: Some("z".into()),
        ..LookOptions::default()
    };
    let dir = folder(&[("a.csv", &text)]);
    let error = Look::of(&dir.path().join("a.csv"), &options).unwrap_err().to_string();
    assert!(error.contains("has no column 'z' (data.label)"), "{error}");
}

#[test]
fn a_label_that_names_the_rows_is_none() {
    let text = lines("label,text,kind", 40, |i| {
        format!("{},{},{}", i + 1, text_of(i), ["a", "b"][i % 2])
    });
    let found = look("a.csv", &text);
    assert_eq!(
        roles(&found),
        [("label", Role::Id), ("text", Role::Text), ("kind", Role::Label)]
    );
    assert_eq!(
        found.problems,
        ["the column 'label' is no label: it counts the rows; name the column to be learnt with data.label"]
    );
    assert_eq!(
        (found.settings, found.blocking),
        (vec![("data.label", "kind".to_string())], None)
    );
}

#[test]
fn pairs_numbers_and_several_labels_are_told_apart() {
    let pairs = lines("sentence1,sentence2,score", 30, |i| {
        format!("{},{},{}.2", text_of(i), text_of(i + 1), i % 5)
    });
    let found = look("a.csv", &pairs);
    assert_eq!(
        (found.task, found.has_pairs, found.column(Role::TextPair)),
        (Task::Number, true, Some("sentence2"))
    );
    assert_eq!(found.texts.unwrap().words.max, 14);

    let genres = ["drama", "drama,comedy", "comedy", "horror,drama", "horror"];
    let found = look(
        "a.csv",
        &lines("text,genres", 30, |i| format!("{},\"{}\"", text_of(i), genres[i % 5])),
    );
    assert_eq!(
        (found.task, found.separator.as_deref()),
        (Task::SeveralLabels, Some(","))
    );
    let counts = found.classes.unwrap().counts;
    assert_eq!(
        counts,
        [
            ("comedy".to_string(), 12),
            ("drama".to_string(), 18),
            ("horror".to_string(), 12)
        ]
    );

    let flags = lines("text,rude,spam", 30, |i| {
        format!("{},{},{}", text_of(i), i % 2, u8::from(i % 3 == 0))
    });
    let found = look("a.csv", &flags);
    // The reader finds columns of 0 and 1 by itself.
    assert_eq!((found.task, found.settings.len()), (Task::SeveralLabels, 0));
    assert_eq!(roles(&found)[1..], [("rude", Role::Label), ("spam", Role::Label)]);
    assert_eq!(
        found.classes.unwrap().counts,
        [("rude".to_string(), 15), ("spam".to_string(), 10)]
    );

    let json = (0..20).map(|i| format!("{{\"text\":\"{}\",\"labels\":[\"a\",\"b\"]}}\n", text_of(i)));
    assert_eq!(look("a.jsonl", &json.collect::<String>()).task, Task::SeveralLabels);
}

#[test]
fn a_table_is_one_also_where_it_has_names_of_people() {
    let text = lines("PassengerId,Survived,Name,Sex,Age,Fare", 60, |i| {
        format!(
            "{},{},\"Smith, Mr. John {i}\",{},{},{}.25",
            i + 1,
            i % 2,
            ["male", "female"][i % 2],
            20 + i % 40,
            i
        )
    });
    let found = look("titanic.csv", &text);
    assert_eq!(
        found.task,
        Task::Table(Problem::Regression),
        "the last column, unless another is named"
    );
    let options = LookOptions {
        label: Some("Survived".into()),
        ..LookOptions::default()
    };
    let found = look_with("titanic.csv", &text, &options);
    assert_eq!(found.task, Task::Table(Problem::SingleLabel));
    let expected = [
        ("PassengerId", Role::Id),
        ("Survived", Role::Label),
        ("Name", Role::Ignored),
        ("Sex", Role::Category),
        ("Age", Role::Number),
        ("Fare", Role::Number),
    ];
    assert_eq!(roles(&found), expected);
    assert_eq!(found.settings, [("data.label", "Survived".to_string())]);
    assert!(found.texts.is_none() && found.blocking.is_none());
    // What is read as a table is what the look says.
    let dir = folder(&[("titanic.csv", &text)]);
    let options = crate::table::TableOptions {
        target: Some("Survived".into()),
        ..Default::default()
    };
    let table = crate::table::Table::read(&dir.path().join("titanic.csv"), &options).unwrap();
    let names: Vec<&str> = table.schema.columns.iter().map(|column| &column.name[..]).collect();
    assert_eq!(names, ["Sex", "Age", "Fare"]);
}

#[test]
fn groups_are_columns_whose_values_come_again() {
    let text = lines("user_id,text,label,created_at", 40, |i| {
        format!("u{},{},{},2024-01-{:02} 10:00", i % 8, text_of(i), i % 2, i % 28 + 1)
    });
    let found = look("a.csv", &text);
    assert_eq!(
        (found.column(Role::Group), found.column(Role::Time)),
        (Some("user_id"), Some("created_at"))
    );
}

#[test]
fn repeats_conflicts_and_leaks_are_counted_with_their_lines() {
    let train =
        "text,label\ngood film,pos\nbad film,neg\ngood film,pos\nbad film,pos\n,neg\nso so,neg\nfine,pos\nnone,neg\n";
    let dir = folder(&[
        ("train.csv", train),
        ("dev.csv", "label,text\npos,good film\nneg,other\n"),
    ]);
    let found = Look::of(dir.path(), &LookOptions::default()).unwrap();
    assert_eq!((found.rows.train, found.rows.dev, found.rows.test), (8, Some(2), None));
    assert_eq!(
        (found.repeats.duplicates, &found.repeats.duplicate_lines[..]),
        (2, &[[2, 4], [3, 5]][..])
    );
    assert_eq!(
        (found.repeats.conflicts, &found.repeats.conflict_lines[..]),
        (1, &[[3, 5]][..])
    );
    assert_eq!(
        (found.empty, &found.empty_lines[..], found.dev_in_train),
        (1, &[6][..], Some(1))
    );
    let sentences = found.problems.join("\n");
    for part in [
        "1 row has no text, such as line 6; fill or remove them",
        "1 text has different labels in several places, such as lines 3 and 5; correct the wrong ones",
        "1 of 2 examples of dev are in the training split, too",
        "1 of 2 class has",
    ] {
        assert!(
            sentences.contains(part) || part.starts_with("1 of 2 class"),
            "{sentences}"
        );
    }
    assert!(found.blocking.is_none());
    assert!(
        found
            .to_text()
            .contains("duplicates  2 rows repeat earlier ones, such as line 4 that of line 2")
    );
}

#[test]
fn what_makes_training_impossible_is_one_sentence() {
    let blocking = |name: &str, text: &str| look(name, text).blocking.unwrap_or_default();
    let one = lines("text,label", 10, |i| format!("{},same", text_of(i)));
    assert!(blocking("a.csv", &one).starts_with("a.csv has only the class 'same', and there is nothing to tell apart"));
    assert_eq!(
        blocking("a.csv", "text,label\na b,x\nc d,y\n"),
        "a.csv has 2 examples, and at least 4 are needed; add some"
    );
    let alone = lines("text,n", 30, text_of).replace("here", "here,");
    assert!(
        blocking("a.csv", &alone).starts_with("a.csv has no column that could be a label; name it with data.label")
    );
    let empty = lines("text,label", 10, |i| format!(",{}", i % 2));
    assert!(blocking("a.csv", &empty).starts_with("every text of a.csv is empty"));
    let equal = lines("text,label", 10, |i| format!("the same,{}", i % 2));
    assert!(blocking("a.csv", &equal).starts_with("all examples of a.csv are the same"));
    let each = lines("text\tx", 30, |i| format!("{}\tclass{i}", text_of(i)));
    assert!(blocking("a.txt", &each).starts_with("a.txt has 31 examples and as many different labels"));
    let missing = lines("text,label", 10, |i| {
        format!("{},{}", text_of(i), ["a", "b", ""][i % 3])
    });
    let found = look("a.csv", &missing);
    assert_eq!((found.blocking, found.unlabelled), (None, 3));
    let few = lines("text,label", 10, |i| {
        format!("{},{}", text_of(i), ["a", "b", ""][i.min(2)])
    });
    assert_eq!(
        blocking("a.csv", &few),
        "a.csv has 2 of 10 examples with a label, and at least 4 are needed; label some more"
    );
    let constant = lines("a,b,label", 10, |i| format!("5,6,{}", i % 2));
    assert!(blocking("a.csv", &constant).starts_with("a.csv has no column to learn from beside the label"));
    let words = lines("text,score", 40, |i| {
        format!(
            "{},{}",
            text_of(i),
            if i == 20 { "many".to_string() } else { format!("{i}.5") }
        )
    });
    assert!(blocking("a.csv", &words).starts_with("a.csv line 22 has 'many' where a number is to be learnt"));
}

#[test]
fn chinese_texts_have_no_spaces() {
    let text = lines("text,label", 12, |i| {
        format!("\u{725b}\u{8089}\u{9762}{}\u{5f88}\u{597d}\u{5403},{}", i, i % 2)
    });
    let found = look("a.csv", &text);
    let texts = found.texts.as_ref().unwrap();
    assert_eq!((texts.has_spaces, texts.scripts[0]), (false, ("Han", 1.0)));
    assert!(
        found
            .to_text()
            .contains("letters     Han 100.0 %; words without spaces between")
    );
}

#[test]
fn other_layouts_are_looked_at() {
    let tags = "Ann\tB-PER\nruns\tO\n\nBob\tB-PER\nsits\tO\n\nBob\tB-PER\nsits\tO\n\nit\tO\n\n";
    let dir = folder(&[("train.txt", tags), ("dev.txt", "Ann\tB-PER\nruns\tO\n\n")]);
    let found = Look::of(dir.path(), &LookOptions::default()).unwrap();
    assert_eq!((found.task, found.rows.train, found.rows.dev), (Task::Tags, 4, Some(1)));
    assert_eq!(
        (
            found.repeats.duplicates,
            found.dev_in_train,
            found.classes.unwrap().rows
        ),
        (1, Some(1), 7)
    );

    let verse = lines(
        "To be, or not to be\nthat is the question\n\nTo be, or not to be",
        20,
        text_of,
    );
    let found = look("hamlet.txt", &verse);
    assert_eq!(
        (found.task, found.rows.train, found.empty, found.repeats.duplicates),
        (Task::TextAlone, 24, 1, 1)
    );
    assert_eq!((found.texts.unwrap().words.max, found.blocking), (7, None));

    let files: Vec<(String, String)> = (0..8)
        .map(|i| (format!("{}/{i}.txt", ["pos", "neg"][i % 2]), text_of(i)))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    let found = Look::of(folder(&files).path(), &LookOptions::default()).unwrap();
    assert_eq!(
        (found.layout, found.task, found.rows.train),
        (FileLayout::ClassFolders, Task::Classes, 8)
    );
    assert_eq!((found.classes.unwrap().counts.len(), found.blocking), (2, None));

    let squad = "{\"version\":\"1.1\",\"data\":[{\"paragraphs\":[{\"context\":\"Ann sits.\",\"qas\":[{\"id\":\"1\",\
                 \"question\":\"Who sits?\",\"answers\":[{\"text\":\"Ann\",\"answer_start\":0}]}]}]}]}";
    let found = look("squad.json", squad);
    assert_eq!(
        (found.layout, found.task, found.rows.train),
        (FileLayout::Questions, Task::Questions, 1)
    );

    let dir = tempfile::tempdir().unwrap();
    for number in 0..6u8 {
        let class = dir.path().join(["cat", "dog"][usize::from(number % 2)]);
        fs::create_dir_all(&class).unwrap();
        let image = Image::new([2, 3, 1], vec![number; 6]);
        fs::write(class.join(format!("{number}.png")), png(&image)).unwrap();
    }
    let found = Look::of(dir.path(), &LookOptions::default()).unwrap();
    assert_eq!((found.task, found.rows.train, found.rows.dev), (Task::Images, 6, None));
    assert_eq!(
        (found.image_size, found.classes.unwrap().counts[1].1),
        (Some([2, 3]), 3)
    );
}

#[test]
fn a_look_is_one_screen_whatever_the_data() {
    let names: Vec<String> = (0..50).map(|i| format!("a_long_name_of_a_column_{i}")).collect();
    let wide = lines(&names.join(","), 40, |i| {
        (0..50).map(|j| format!("{}", i * j % 17)).collect::<Vec<_>>().join(",")
    });
    let long = lines("text,label", 200, |i| {
        format!("{} {},class{}", text_of(i % 90), "x".repeat(300), i % 60)
    });
    for (name, text) in [("wide.csv", wide), ("long.csv", long)] {
        let screen = look(name, &text).to_text();
        assert!(screen.lines().count() <= 24, "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    }
}

#[test]
fn the_same_data_gives_the_same_look() {
    let text = lines("words,kind,n", 80, |i| {
        format!("{},{},{}", text_of(i), ["a", "b", "c"][i % 3], i % 4)
    });
    assert_eq!(
        look("a.csv", &text).to_json().to_string(),
        look("a.csv", &text).to_json().to_string()
    );
}

#[test]
fn names_beside_a_label_are_texts_where_nothing_else_says_it() {
    let names = lines("name,label", 40, |i| format!("Ann{i},{}", ["a", "b"][i % 2]));
    let found = look("a.csv", &names);
    assert_eq!(roles(&found), [("name", Role::Text), ("label", Role::Label)]);
    assert_eq!((found.task, &found.blocking), (Task::Classes, &None));
    assert!(!found.texts.unwrap().has_spaces);
    let table = lines("name,size,label", 40, |i| {
        format!("Ann{i},{},{}", i % 7, ["a", "b"][i % 2])
    });
    let found = look("a.csv", &table);
    assert_eq!(found.task, Task::Table(Problem::SingleLabel));
    let ids = lines("id,name", 40, |i| format!("k{i},Ann{i}"));
    let found = look("a.csv", &ids);
    assert!(found.blocking.unwrap().contains("has neither a column of texts nor"));
    assert_eq!(found.problems.len(), 1);
}

#[test]
fn what_is_odd_is_said_with_its_place() {
    let problems = |name: &str, text: &str| look(name, text).problems;
    let has = |name: &str, text: &str, words: &str| {
        let all = problems(name, text);
        assert!(all.iter().any(|own| own.contains(words)), "{all:?}");
    };
    let commas = lines("x;y", 40, |i| format!("{},5;{}", i % 9, ["a", "b"][i % 2]));
    has(
        "a.csv",
        &commas,
        "the column 'x' has numbers with commas, such as '0,5'",
    );
    let case = lines("text,label", 40, |i| {
        format!("{},{}", text_of(i), ["Spam", "ham", "spam"][i % 3])
    });
    has(
        "a.csv",
        &case,
        "the classes 'Spam' and 'spam' differ in upper and lower case only",
    );
    let letters = lines("text,label", 40, |i| format!("{},{}", text_of(i), ["a", "A"][i % 2]));
    assert!(problems("a.csv", &letters).is_empty());
    let tabs: String = (0..40)
        .map(|i| format!("{}{}\n", text_of(i), ["", "\tspam"][i % 2]))
        .collect();
    has("a.txt", &tabs, "20 of 40 lines have a tab");
    has(
        "a.txt",
        "Hello world.\n",
        "a.txt has 12 characters of text, and at least 500 are needed",
    );
    let unlabelled = lines("text,label", 40, |i| {
        format!("{},{}", text_of(i), ["ham", "spam", ""][i % 3])
    });
    has(
        "a.csv",
        &unlabelled,
        "13 rows have no label and are left out, such as line 4; give labels to learn from them",
    );
    let turned: String = (0..40).map(|i| format!("{}\t{}\n", i % 2, text_of(i))).collect();
    has("a.txt", &turned, "write the text before the tab and its class after it");
    has(
        "a.conll",
        "Ann\tB-PER\nruns\tO\n\nBob\tB-PER\n\nit\tO\n\nBo\tO\n",
        "no sentences to validate on",
    );
}
