//! Tests of labels that are numbers or sets of classes.

use super::tests::{folder, texts};
use super::*;

fn options(problem: Problem) -> Options {
    Options {
        problem,
        ..Options::default()
    }
}

fn read_file(name: &str, text: &str, options: &Options) -> Result<Dataset> {
    let dir = folder(&[(name, text.as_bytes())]);
    let data = read(&dir.path().join(name), options)?;
    // Files are gone when the texts are read otherwise.
    let _ = dir.keep();
    Ok(data)
}

fn refused(name: &str, text: &str, options: &Options) -> String {
    let dir = folder(&[(name, text.as_bytes())]);
    let message = read(&dir.path().join(name), options).unwrap_err().to_string();
    message.replace(&format!("{}/", dir.path().display()), "")
}

/// The names of all classes, and the classes of each example of all splits in the order of the file.
fn sets(data: &Dataset, order: &[&str]) -> (Vec<String>, Vec<Vec<i32>>) {
    let mut found = vec![Vec::new(); order.len()];
    for split in [&data.train, &data.dev] {
        let Labels::Sets(sets) = &split.labels else {
            panic!("no sets")
        };
        for (text, set) in texts(split).iter().zip(sets.iter()) {
            found[order.iter().position(|own| own == text).unwrap()] = set.to_vec();
        }
    }
    (data.class_names().unwrap().to_vec(), found)
}

#[test]
fn numbers_are_read_from_every_format() {
    for (name, text) in [
        ("a.txt", "good film\t4.5\nbad\t-1e-1\nso so\t3\n"),
        ("a.csv", "text,id,stars\ngood film,1,4.5\nbad,2,-0.1\nso so,3,3\n"),
        ("a.tsv", "stars\ttext\n 4.5\tgood film\n-.1\tbad\n3.0\tso so\n"),
        (
            "a.jsonl",
            "{\"text\": \"good film\", \"score\": 4.5}\n{\"text\": \"bad\", \"score\": \"-0.1\"}\n{\"text\": \"so so\", \
             \"score\": 3}\n",
        ),
    ] {
        let data = read_file(name, text, &options(Problem::Regression)).unwrap();
        assert_eq!(
            (data.class_names(), data.target.clone()),
            (None, LabelKind::Score),
            "{name}"
        );
        assert_eq!(data.metrics[0], Metric::Mse);
        let mut found = Vec::new();
        for split in [&data.train, &data.dev] {
            let Labels::Scores(scores) = &split.labels else {
                panic!("no scores")
            };
            found.extend(texts(split).into_iter().zip(scores.clone()));
        }
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        let expected = [("bad", -0.1), ("so so", 3.0), ("good film", 4.5)];
        assert_eq!(found, expected.map(|(text, score)| (text.to_string(), score)), "{name}");
        assert_eq!((data.train.len(), data.dev.len()), (2, 1));
    }
}

#[test]
fn what_is_no_number_is_named_with_line_and_column() {
    let of = |name: &str, text: &str| refused(name, text, &options(Problem::Regression));
    assert_eq!(
        of("a.csv", "text,score\na,1\nb,good\n"),
        "a.csv line 3 has 'good' in the column 'score', which is no number; write one such as 3.5"
    );
    for wrong in ["inf", "1e40", "3,5", "1 2"] {
        let message = of("a.txt", &format!("a\t{wrong}\n"));
        assert_eq!(
            message,
            format!("a.txt line 1 has '{wrong}', which is no number; write one such as 3.5")
        );
    }
    assert_eq!(
        of("a.tsv", "text\tscore\na\t\nb\tnan\n"),
        "a.tsv has no row with a label; give labels to some, or name their column with data.label"
    );
    assert_eq!(
        of("a.jsonl", "{\"text\": \"a\", \"label\": [1, 2]}\n"),
        "a.jsonl line 1 has several labels in the column 'label'; give it one number"
    );
    let data = "{\"text\": \"a\", \"label\": null}\n{\"text\": \"b\", \"label\": 2}\n{\"text\": \"c\", \"label\": 3}\n";
    let found = read_file("a.jsonl", data, &options(Problem::Regression)).unwrap();
    assert_eq!(found.train.len() + found.dev.len(), 2);
    let remark = &found.remarks[0];
    assert!(
        remark.starts_with("1 row has no label and is left out, such as"),
        "{remark}"
    );
}

#[test]
fn lists_and_words_with_separators_are_sets_of_classes() {
    let order = ["one", "two", "three", "four"];
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let expected = (names(&["rude", "spam"]), vec![vec![1, 0], vec![], vec![0], vec![1]]);
    for (name, text) in [
        (
            "a.jsonl",
            "{\"text\": \"one\", \"labels\": [\"spam\", \"rude\"]}\n{\"text\": \"two\", \"labels\": []}\n\
             {\"text\": \"three\", \"labels\": \"rude\"}\n{\"text\": \"four\", \"labels\": [\"spam\"]}\n",
        ),
        (
            "a.csv",
            "text,labels\none,\"spam, rude\"\ntwo,\nthree,rude\nfour,spam\n",
        ),
        ("a.txt", "one\tspam,rude\ntwo\t\nthree\trude\nfour\tspam\n"),
        // As pandas writes a column of lists.
        (
            "a.csv",
            "text,tags\none,\"['spam', 'rude']\"\ntwo,[]\nthree,['rude']\nfour,\"[\"\"spam\"\"]\"\n",
        ),
    ] {
        let data = read_file(name, text, &options(Problem::MultiLabel)).unwrap();
        assert_eq!(sets(&data, &order), expected, "{text}");
        assert_eq!(
            data.remarks.len(),
            1,
            "the examples kept for validation: {:?}",
            data.remarks
        );
    }
    // Numbers by their size, with a separator of their own.
    let other = Options {
        separator: "|".to_string(),
        ..options(Problem::MultiLabel)
    };
    let data = read_file(
        "a.tsv",
        "text\tlabel\none\t10|9\ntwo\t9 | 9\nthree\t\nfour\t10\n",
        &other,
    )
    .unwrap();
    let expected = (names(&["9", "10"]), vec![vec![1, 0], vec![0], vec![], vec![1]]);
    assert_eq!(sets(&data, &order), expected);
}

#[test]
fn columns_of_zeros_and_ones_are_classes_in_their_order() {
    let order = ["one", "two", "three"];
    let expected = (
        ["spam", "rude"].map(str::to_string).to_vec(),
        vec![vec![0, 1], vec![], vec![1]],
    );
    let columns = Options {
        columns: Columns {
            label: Some("spam,rude".into()),
            ..Columns::default()
        },
        ..options(Problem::MultiLabel)
    };
    for (name, text, options) in [
        (
            "a.csv",
            "id,text,spam,rude\n7,one,1,1\n8,two,0,0\n9,three,0,1\n",
            &options(Problem::MultiLabel),
        ),
        (
            "a.csv",
            ",text,spam,rude\n0,one,1.0,1.0\n1,two,0.0,0.0\n2,three,0.0,1.0\n",
            &options(Problem::MultiLabel),
        ),
        (
            "a.tsv",
            "text\trude\tlength\tspam\none\tTrue\t3\tTrue\ntwo\tFalse\t3\tFalse\nthree\tTrue\t5\tFalse\n",
            &columns,
        ),
        (
            "a.jsonl",
            "{\"text\": \"one\", \"spam\": 1, \"rude\": true}\n{\"text\": \"two\", \"spam\": 0, \"rude\": false}\n\
             {\"text\": \"three\", \"spam\": 0, \"rude\": true}\n",
            &columns,
        ),
    ] {
        let data = read_file(name, text, options).unwrap();
        assert_eq!(sets(&data, &order), expected, "{text}");
        assert_eq!(data.remarks[0], "the labels are the columns spam, rude");
    }
    assert_eq!(
        refused("a.csv", "text,spam,day\na,1,monday\n", &options(Problem::MultiLabel)),
        "a.csv line 2 has 'monday' in the column 'day'; write 0 or 1, or name the columns of labels with data.label"
    );
}

#[test]
fn sets_are_looked_up_in_known_classes() {
    let known = Options {
        classes: Some(vec!["rude".into(), "spam".into(), "ham".into()]),
        ..options(Problem::MultiLabel)
    };
    let of =
        |labels: &str| format!("{{\"text\": \"a\", \"labels\": [{labels}]}}\n{{\"text\": \"b\", \"labels\": []}}\n");
    for labels in ["\"spam\", \"rude\"", "1, 0"] {
        let data = read_file("a.jsonl", &of(labels), &known).unwrap();
        assert_eq!(
            sets(&data, &["a", "b"]),
            (known.classes.clone().unwrap(), vec![vec![1, 0], vec![]])
        );
    }
    // Columns are classes, also where they are 0.
    let jigsaw = "text,rude,loud\na,1,0\nb,0,0\n";
    assert!(
        refused("a.csv", jigsaw, &known)
            .starts_with("a.csv line 2 has the label 'loud', but the 3 classes of the model")
    );
    // A number among names is none of the classes.
    assert_eq!(
        refused("a.jsonl", &of("\"spam\", 0"), &known),
        "a.jsonl line 1 has the label '0', but the 3 classes of the model are rude, spam, ham; use one of these"
    );
    assert_eq!(
        refused("a.txt", "a\tspam,eggs\n", &known),
        "a.txt line 1 has the label 'eggs', but the 3 classes of the model are rude, spam, ham; use one of these"
    );
}

#[test]
fn labels_that_cannot_be_meant_are_refused_or_named() {
    let of = |text: &str| refused("a.csv", text, &options(Problem::MultiLabel));
    let rows: String = (0..30).map(|i| format!("t{i},a{i};b\n")).collect();
    assert!(of(&format!("text,labels\n{rows}")).starts_with(
        "a.csv has 30 examples and 30 different labels, which cannot be right; name the column of the labels with \
         data.label, and what stands between labels with data.separator"
    ));
    assert_eq!(
        of("text,labels\na,\nb,\n"),
        "a.csv has no text with a label; give at least one a label"
    );
    let data = read_file("a.csv", "text,labels\na,x;y\nb,x\n", &options(Problem::MultiLabel)).unwrap();
    assert!(
        data.remarks[0].ends_with("a.csv has several labels; what stands between labels is ',' (data.separator)"),
        "{:?}",
        data.remarks
    );
    let single = refused("a.jsonl", "{\"text\": \"a\", \"label\": [1]}\n", &Options::default());
    assert!(single.ends_with("say that texts have several with data.problem = \"multi_label_classification\""));
    let numbers: String = (0..30).map(|i| format!("text\t{i}.5\n")).collect();
    assert!(
        refused("a.txt", &numbers, &Options::default()).contains("or learn numbers with data.problem = \"regression\"")
    );
}

#[test]
fn every_class_gives_its_share_for_validation() {
    let rows: String = (0..200)
        .map(|i| {
            let rare = if i % 10 == 0 { ",rare" } else { "" };
            format!("t{i},\"often{rare}\"\n")
        })
        .collect();
    let data = read_file("a.csv", &format!("text,labels\n{rows}"), &options(Problem::MultiLabel)).unwrap();
    let Labels::Sets(dev) = &data.dev.labels else {
        panic!("no sets")
    };
    assert_eq!((dev.len(), dev.iter().filter(|set| set.len() == 2).count()), (20, 2));
}
