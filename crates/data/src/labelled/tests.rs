use super::*;
use std::fs;
use tempfile::TempDir;

pub(super) fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn read_folder(files: &[(&str, &[u8])]) -> Result<Dataset> {
    let dir = folder(files);
    let data = read(dir.path(), &Options::default())?;
    // Files are gone when the texts are read otherwise.
    let _ = dir.keep();
    Ok(data)
}

fn message(files: &[(&str, &[u8])]) -> String {
    let dir = folder(files);
    let message = read(dir.path(), &Options::default()).unwrap_err().to_string();
    message.replace(&format!("{}/", dir.path().display()), "")
}

pub(super) fn texts(split: &Examples) -> Vec<String> {
    split.texts().map(|text| text.unwrap().0).collect()
}

fn classes(split: &Examples) -> &[i32] {
    match &split.labels {
        Labels::Classes(classes) => classes,
        Labels::Sets(_) | Labels::Scores(_) => panic!("no classes"),
    }
}

#[test]
fn a_folder_is_read_with_its_names_and_splits() {
    let dir = folder(&[
        (
            "train.txt",
            "\u{feff}红牛：法拉利\t1\r\n\"quoted\tand tabbed\t0\r\n".as_bytes(),
        ),
        ("dev.txt", b"no line end\t2"),
        ("test.txt", b"a\t0\n\n"),
        ("class.txt", b"sports\ngame\nstocks\n"),
    ]);
    let data = read(dir.path(), &Options::default()).unwrap();
    assert_eq!(data.class_names().unwrap(), ["sports", "game", "stocks"]);
    assert_eq!(texts(&data.train), ["红牛：法拉利", "\"quoted\tand tabbed"]);
    assert_eq!(classes(&data.train), [1, 0]);
    assert_eq!(classes(data.split("dev").unwrap()), [2]);
    assert_eq!(data.split("test").unwrap().len(), 1);
    assert_eq!(
        data.remarks,
        [
            "no label is the name of a class of class.txt, so labels are the numbers of classes from 0 on: 0 is sports, 1 is \
          game, 2 is stocks"
        ]
    );
    assert!(
        data.split("valid")
            .unwrap_err()
            .to_string()
            .contains("no split called valid; choose one of train, dev, test")
    );
}

#[test]
fn labels_are_names_or_numbers_and_never_both() {
    let names = |names: &str| names.replace(' ', "\n");
    let lines = |labels: &str| -> String { labels.split(' ').map(|label| format!("a\t{label}\n")).collect() };
    // Classes of class.txt, labels of the splits train and dev: their numbers, or file and line of the wrong one.
    for (class, train, dev, expected) in [
        ("sports game", "game sports", "game", Ok((&[1, 0][..], &[1][..]))),
        ("sports game", "1 0", "1", Ok((&[1, 0], &[1]))),
        ("1 2 3", "1 2 3", "3 1", Ok((&[0, 1, 2], &[2, 0]))),
        ("0 1 2", "0 1 2", "2 0", Ok((&[0, 1, 2], &[2, 0]))),
        ("10 20", "0 1 0", "1", Ok((&[0, 1, 0], &[1]))),
        ("1 2 3", "0 1 2", "1", Err("train.txt line 1 has the label '0'")),
        ("1 2 3", "1 2 3", "1 0", Err("dev.txt line 2 has the label '0'")),
        ("1 2 3", "1 2 3", "0 0", Err("dev.txt line 1 has the label '0'")),
        ("1 2 3", "0 0", "0 0 1", Err("train.txt line 1 has the label '0'")),
        (
            "sports game",
            "1 sports",
            "game",
            Err("train.txt line 1 has the label '1'"),
        ),
        (
            "sports game",
            "sports 1",
            "game",
            Err("train.txt line 2 has the label '1'"),
        ),
        (
            "sports game",
            "1 0",
            "0 game",
            Err("train.txt line 1 has the label '1'"),
        ),
        (
            "sports game",
            "game",
            "sports 0",
            Err("dev.txt line 2 has the label '0'"),
        ),
        ("sports game", "1 0", "2", Err("dev.txt line 1 has the label '2'")),
        ("sports game", "01 0", "0", Err("train.txt line 1 has the label '01'")),
        ("sports game", "+1 0", "0", Err("train.txt line 1 has the label '+1'")),
        ("sports game", "0 1.0", "0", Err("train.txt line 2 has the label '1.0'")),
        ("sports game", "0 -0", "0", Err("train.txt line 2 has the label '-0'")),
        // Without class.txt, the labels of the training split are names.
        ("", "1 2 3 4 5", "0 1", Err("dev.txt line 1 has the label '0'")),
        ("", "1 2 3 4 5", "1 1.0", Err("dev.txt line 2 has the label '1.0'")),
        ("", "1 2 3", "3 1", Ok((&[0, 1, 2], &[2, 0]))),
        ("", "b a", "1", Err("dev.txt line 1 has the label '1'")),
    ] {
        let (class, shown) = (names(class), format!("{class}; {train}; {dev}"));
        let (train, dev) = (lines(train), lines(dev));
        let mut files = vec![("train.txt", train.as_bytes()), ("dev.txt", dev.as_bytes())];
        if !class.is_empty() {
            files.push(("class.txt", class.as_bytes()));
        }
        match expected {
            Ok(expected) => {
                let data = read_folder(&files).unwrap();
                assert_eq!((classes(&data.train), classes(&data.dev)), expected, "{shown}");
            }
            Err(start) => {
                let message = message(&files);
                assert!(
                    message.starts_with(start) && message.contains(", but the ") && message.contains(" classes of "),
                    "{shown}: {message}"
                );
            }
        }
    }
}

#[test]
fn numbers_of_json_are_classes_by_what_they_are() {
    let of = |labels: &[&str]| {
        let lines: String = labels
            .iter()
            .map(|label| format!("{{\"text\": \"a\", \"label\": {label}}}\n"))
            .collect();
        let data = read_folder(&[("train.jsonl", lines.as_bytes()), ("dev.jsonl", lines.as_bytes())]).unwrap();
        (data.class_names().unwrap().join(" "), classes(&data.train).to_vec())
    };
    for (labels, names, numbers) in [
        (&["1", "0", "1.0", "0"][..], "0 1", &[1, 0, 1, 0][..]),
        (
            &["12345678901234567890123", "12345678901234567890124", "7"],
            "7 12345678901234567890123 12345678901234567890124",
            &[1, 2, 0],
        ),
        (&["1e1", "10", "9.0"], "9 10", &[1, 1, 0]),
        (&["2.50", "2.5", "-1"], "-1 2.5", &[1, 1, 0]),
        (
            &["9007199254740993", "9007199254740992"],
            "9007199254740992 9007199254740993",
            &[1, 0],
        ),
        (&["true", "false"], "false true", &[1, 0]),
        (&["\"1\"", "1", "\"1.0\""], "1 1.0", &[0, 0, 1]),
    ] {
        assert_eq!(of(labels), (names.to_string(), numbers.to_vec()), "{labels:?}");
    }
}

#[test]
fn classes_without_a_file_of_names_are_those_of_the_training_split_in_order() {
    let of = |train: &str| {
        let train = train.replace(' ', "\n").replace(':', "\t");
        let data = read_folder(&[("train.txt", train.as_bytes()), ("dev.txt", train.as_bytes())]).unwrap();
        (data.class_names().unwrap().to_vec(), classes(&data.train).to_vec())
    };
    let expected =
        |names: &[&str], labels: &[i32]| (names.iter().map(|name| name.to_string()).collect(), labels.to_vec());
    assert_eq!(of("a:0 b:2 c:1"), expected(&["0", "1", "2"], &[0, 2, 1]));
    assert_eq!(of("a:10 b:9 c:-1"), expected(&["-1", "9", "10"], &[2, 1, 0]));
    assert_eq!(
        of("a:pos b:neg c:pos d:Neg"),
        expected(&["Neg", "neg", "pos"], &[2, 1, 2, 0])
    );
    // 1 and 01 are two names.
    assert_eq!(of("a:1 b:01"), expected(&["01", "1"], &[1, 0]));
}

#[test]
fn every_format_of_a_file_is_read_alike() {
    let all = [
        ("train.txt", "one, \"two\"\tpos\nx\tneg\n"),
        ("train.tsv", "label\tid\ttext\npos\t1\tone, \"two\"\nneg\t2\tx\n"),
        (
            "train.csv",
            "\u{feff}text,label\r\n\"one, \"\"two\"\"\",pos\r\nx, neg\r\n",
        ),
        (
            "train.jsonl",
            "{\"text\": \"one, \\\"two\\\"\", \"label\": \"pos\"}\n\n{\"label\": \"neg\", \"text\": \"x\"}\n",
        ),
    ];
    for (name, train) in all {
        let data = read_folder(&[(name, train.as_bytes()), ("dev.txt", b"y\tpos\n")]).unwrap();
        assert_eq!(data.class_names().unwrap(), ["neg", "pos"], "{name}");
        assert_eq!(texts(&data.train), ["one, \"two\"", "x"], "{name}");
        assert_eq!(
            (classes(&data.train), classes(&data.dev)),
            (&[1, 0][..], &[1][..]),
            "{name}"
        );
    }
    let data = read_folder(&[
        ("train/neg/a.txt", b"bad\nfilm\n"),
        ("train/pos/b.txt", b"good\n"),
        ("dev/pos/c.txt", b"fine"),
    ]);
    let data = data.unwrap();
    assert_eq!(
        (texts(&data.train), classes(&data.train)),
        (vec!["bad\nfilm".into(), "good".into()], &[0, 1][..])
    );
    assert_eq!(classes(&data.dev), [1]);
}

#[test]
fn pairs_quotes_and_columns_by_number() {
    let dir = folder(&[
        ("nli.csv", b"premise,hypothesis,label\n\"a\nb\",c,0\nd,e,1\n"),
        ("news.csv", b"3,Title,More\n4,Other,\n3,x,y\n"),
        ("dev.csv", b"4,Dev,text\n"),
    ]);
    let at = |name: &str| dir.path().join(name);
    let data = read(
        &at("nli.csv"),
        &Options {
            dev: Some(at("nli.csv")),
            ..Options::default()
        },
    )
    .unwrap();
    let pairs: Vec<_> = data.train.texts().map(Result::unwrap).collect();
    assert_eq!(
        pairs,
        [("a\nb".into(), Some("c".into())), ("d".into(), Some("e".into()))]
    );
    let columns = Columns {
        text: Some("2".into()),
        text_pair: Some("3".into()),
        label: Some("1".into()),
        ..Columns::default()
    };
    let options = Options {
        columns,
        dev: Some(at("d*v.csv")),
        ..Options::default()
    };
    let data = read(&at("news.csv"), &options).unwrap();
    assert_eq!(data.class_names().unwrap(), ["3", "4"]);
    assert_eq!(
        (texts(&data.train), classes(&data.dev)),
        (vec!["Title".into(), "Other".into(), "x".into()], &[1][..])
    );
}

#[test]
fn a_share_is_kept_where_there_is_no_dev_file() {
    let lines: String = (0..100)
        .map(|i| format!("text {i}\t{}\n", if i % 5 == 0 { "rare" } else { "often" }))
        .collect();
    let dir = folder(&[("all.txt", lines.as_bytes())]);
    let path = dir.path().join("all.txt");
    let data = read(&path, &Options::default()).unwrap();
    assert_eq!(
        data.remarks,
        ["there is no dev file: 10 of 100 examples are kept for validation"]
    );
    assert_eq!(
        (
            data.train.len(),
            classes(&data.dev).iter().filter(|class| **class == 1).count()
        ),
        (90, 2)
    );
    let mut all = [texts(&data.train), texts(&data.dev)].concat();
    assert_ne!(
        texts(&data.dev),
        (0..10).map(|i| format!("text {i}")).collect::<Vec<_>>()
    );
    all.sort_by_key(|text| text[5..].parse::<usize>().unwrap());
    assert_eq!(all, (0..100).map(|i| format!("text {i}")).collect::<Vec<_>>());
    for (text, class) in texts(&data.dev).iter().zip(classes(&data.dev)) {
        assert_eq!(text[5..].parse::<i32>().unwrap() % 5 == 0, *class == 1, "{text}");
    }
    let other = Options {
        held_out_seed: 2,
        ..Options::default()
    };
    assert_ne!(texts(&read(&path, &other).unwrap().dev), texts(&data.dev));
}

#[test]
fn all_of_a_place_without_a_split_for_it_is_evaluated_where_that_is_asked_for() {
    let dir = folder(&[
        ("a.csv", b"text,label\na,x\nb,y\nc,y\n"),
        ("classes/x/1.txt", b"a"),
        ("classes/y/2.txt", b"b"),
        ("split/train.txt", b"a\tx\nb\ty\n"),
        ("split/dev.txt", b"c\ty\n"),
    ]);
    let options = Options {
        whole: true,
        ..Options::default()
    };
    for (name, is_whole, counts) in [
        ("a.csv", true, (3, 3)),
        ("*.csv", true, (3, 3)),
        ("classes", true, (2, 2)),
        ("split", false, (2, 1)),
    ] {
        let data = read(&dir.path().join(name), &options).unwrap();
        assert_eq!(
            (data.is_whole, (data.train.len(), data.dev.len())),
            (is_whole, counts),
            "{name}"
        );
        assert_eq!(data.remarks, [""; 0], "{name}");
    }
}

#[test]
fn a_file_that_changes_between_reading_labels_and_texts_is_noticed() {
    let dir = folder(&[("a.csv", b"text,label\na,0\nb,1\nc,1\n")]);
    let path = dir.path().join("a.csv");
    let options = Options {
        dev: Some(path.clone()),
        ..Options::default()
    };
    let data = read(&path, &options).unwrap();
    for changed in ["text,label\na,0\n", "text,label\na,0\nb,1\nc,1\nd,0\n"] {
        fs::write(&path, changed).unwrap();
        let last = data.train.texts().last().unwrap().unwrap_err().to_string();
        assert!(
            last.ends_with("a.csv has changed while it was read; leave the data as it is, and start again"),
            "{last}"
        );
    }
}

#[test]
fn every_mistake_names_file_line_and_remedy() {
    let (train, names): (&[u8], &[u8]) = (b"a\t0\nb\t1\n", b"x\ny\n");
    let with_train = |train| message(&[("train.txt", train), ("dev.txt", b"a\t0"), ("class.txt", names)]);
    for bad in [&b"a\t0\nb 1\n"[..], b"a\t0\n\nb\t1\n"] {
        assert_eq!(
            with_train(bad),
            "train.txt line 2 has no tab; write the text, a tab and the label"
        );
    }
    assert_eq!(
        with_train(b"a\t0\nb\tone\n"),
        "train.txt line 2 has the label 'one', but the 2 classes of class.txt are x, y; use one of these"
    );
    assert!(
        with_train(b"a\t2\n")
            .starts_with("train.txt line 1 has the label '2', but the 2 classes of class.txt are x, y")
    );
    assert!(with_train(b"a\t-1\n").contains("line 1 has the label '-1'"));
    assert_eq!(
        with_train(b"a\t\nb\t \n"),
        "train.txt has no row with a label; give labels to some, or name their column with data.label"
    );
    assert!(with_train(b"a\t0\n\xff\t1\n").contains("train.txt line 2 is not valid UTF-8"));
    assert!(with_train(b"").contains("train.txt is empty"));
    assert!(message(&[("dev.txt", train)]).starts_with("there is no train.txt, train.csv"));
    assert!(
        message(&[("train.txt", train), ("dev.txt", b"a\t7")])
            .starts_with("dev.txt line 1 has the label '7', but the 2 classes of train.txt are 0, 1;")
    );
    assert!(message(&[("train.txt", b"a\t1")]).contains("train.txt has only one class"));
    let blank = message(&[("train.txt", train), ("dev.txt", train), ("class.txt", b"x\n\ny\n")]);
    assert!(blank.contains("class.txt line 2 is blank"));
    let twice = message(&[("train.txt", train), ("dev.txt", train), ("class.txt", b"x\ny\n x\n")]);
    assert_eq!(
        twice,
        "class.txt line 3 names 'x', as line 1 does; give each class its own name"
    );
    let different: String = (0..30).map(|i| format!("text\t{i}.5\n")).collect();
    assert!(message(&[("train.txt", different.as_bytes())]).starts_with(
        "train.txt has 30 examples and as many different labels, which cannot be classes; name the column"
    ));
}

#[test]
fn mistakes_in_columns_name_them() {
    let with = |name: &str, text: &[u8]| message(&[(name, text), ("dev.txt", b"a\t0")]);
    assert_eq!(
        with("train.csv", b"text,label\na,0\nb, c,1\n"),
        "train.csv line 3 has 3 columns instead of 2; put texts with commas or line ends between double quotes"
    );
    assert_eq!(
        with("train.tsv", b"text\tlabel\na\t0\nb 1\n"),
        "train.tsv line 3 has 1 columns instead of 2; write one tab between columns and none in a text, or use .csv with quotes"
    );
    assert!(
        with("train.csv", b"a,0\nb,1\n").starts_with("train.csv line 1 has the columns 'a', '0', and none of them")
    );
    assert!(with("train.csv", b"text,label\n").contains("train.csv is empty"));
    assert!(with("train.csv", b"").contains("train.csv is empty"));
    assert!(with("train.csv", b"text,label\n\xff,0\n").contains("train.csv line 2 is not valid UTF-8"));
    let json = |text: &[u8]| with("train.jsonl", text);
    assert_eq!(
        json(b"{\"text\": \"a\", \"label\": 0}\n{\"text\": \"b\"}\n"),
        "train.jsonl line 2 has no field 'label'; give it to every line"
    );
    assert_eq!(
        json(b"{\"text\": 3, \"label\": 0}\n"),
        "train.jsonl line 1 has something else than a text in 'text'; write a text"
    );
    assert_eq!(
        json(b"{\"text\": \"a\", \"label\": null}\n"),
        "train.jsonl has no row with a label; give labels to some, or name their column with data.label"
    );
    assert!(json(b"[1]\n").starts_with("train.jsonl line 1 is no JSON object"));
    assert!(json(b"{\"text\": \"a\", \"label\": 0}\n{\"text\"\n").starts_with("train.jsonl line 2 column "));
    assert!(json(b"{\"text\": \"a\", \"label\": [1]}\n").contains("line 1 has several labels; give it one, or say"));
    let dir = folder(&[("a.xlsx", b"x")]);
    let error = read(&dir.path().join("a.xlsx"), &Options::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with(
            "a.xlsx is not known by its name; name it .txt (text, tab, label), .csv, .tsv, .jsonl or .parquet"
        ),
        "{error}"
    );
}

#[test]
fn rows_without_a_label_are_left_out_of_all_splits() {
    let dir = folder(&[
        ("train.csv", b"text,label\na,x\nb,\nc,y\nd, \n"),
        (
            "dev.jsonl",
            b"{\"text\": \"e\", \"label\": \"x\"}\n{\"text\": \"f\", \"label\": null}\n",
        ),
    ]);
    let options = Options::default();
    let data = read(dir.path(), &options).unwrap();
    assert_eq!(
        (texts(&data.train), classes(&data.train)),
        (vec!["a".into(), "c".into()], &[0, 1][..])
    );
    assert_eq!((texts(&data.dev), classes(&data.dev)), (vec!["e".into()], &[0][..]));
    let place = dir.path().join("train.csv").display().to_string();
    assert_eq!(
        data.remarks,
        [format!("3 rows have no label and are left out, such as {place} line 3")]
    );
    // A share of what has a label is held out, and a model's classes leave the same rows out.
    let all = Options {
        held_out: 0.5,
        ..Options::default()
    };
    let halves = read(&dir.path().join("train.csv"), &all).unwrap();
    assert_eq!((halves.train.len(), halves.dev.len()), (1, 1));
    let known = Options {
        classes: Some(vec!["x".into(), "y".into()]),
        ..options
    };
    assert_eq!(texts(&read(dir.path(), &known).unwrap().train), ["a", "c"]);
    // A text without labels has none of several.
    let several = Options {
        problem: Problem::MultiLabel,
        ..Options::default()
    };
    let file = dir.path().join("train.csv");
    let sets = read(&file, &several).unwrap();
    assert_eq!(sets.train.len() + sets.dev.len(), 4);
    let remarks = sets.remarks.concat();
    assert!(!remarks.contains("left out"), "{remarks}");
}

#[test]
fn labels_are_looked_up_in_the_classes_of_a_model() {
    let dir = folder(&[
        ("a.csv", b"text,label\na,good\nb,good\n"),
        ("b.csv", b"text,label\na,1\nb,fine\n"),
    ]);
    let options = Options {
        classes: Some(vec!["bad".into(), "good".into()]),
        ..Options::default()
    };
    let data = read(&dir.path().join("a.csv"), &options).unwrap();
    assert_eq!(
        (data.class_names().unwrap(), classes(&data.train)),
        (&["bad".to_string(), "good".into()][..], &[1][..])
    );
    let error = read(&dir.path().join("b.csv"), &options).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "b.csv line 3 has the label 'fine', but the 2 classes of the model are bad, good; use one of these"
        ),
        "{error}"
    );
}

#[test]
fn a_single_class_is_refused_whoever_says_so() {
    let one: &[u8] = b"a\t0\nb\t0\n";
    for (names, file) in [(None, "train.txt"), (Some(&b"x\n"[..]), "class.txt")] {
        let mut files = vec![("train.txt", one), ("dev.txt", one)];
        files.extend(names.map(|names| ("class.txt", names)));
        assert_eq!(
            message(&files),
            format!("{file} has only one class, and there is nothing to tell apart; give at least two classes")
        );
    }
    let two = folder(&[("train.txt", one), ("dev.txt", one), ("class.txt", b"x\ny\n")]);
    assert_eq!(
        read(two.path(), &Options::default()).unwrap().class_names().unwrap(),
        ["x", "y"]
    );
}
