use super::GlueTask::*;
use super::*;
use crate::metrics::Metric;
use std::fs;
use std::ops::Deref;

const RTE: &str = "index\tsentence1\tsentence2\tlabel\n0\tNo \"news\tis good.\tnot_entailment\n1\ta\tb\tentailment\n";

/// A dataset in the folder that its texts are read from.
#[derive(Debug)]
struct Here {
    data: Dataset,
    dir: tempfile::TempDir,
}

impl Deref for Here {
    type Target = Dataset;

    fn deref(&self) -> &Dataset {
        &self.data
    }
}

fn read_two(task: GlueTask, train: &str, dev: &str) -> Result<Here> {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(task.name());
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("train.tsv"), train).unwrap();
    fs::write(folder.join(task.layout().dev), dev).unwrap();
    let data = task.read(dir.path());
    assert_eq!(
        data,
        task.read(&folder),
        "the task's own folder and its parent mean the same"
    );
    data.map(|data| Here { data, dir })
}

fn texts(split: &Examples) -> Vec<(String, Option<String>)> {
    split.texts().map(Result::unwrap).collect()
}

fn message(task: GlueTask, text: &str) -> String {
    let message = read_two(task, text, text).unwrap_err().to_string();
    message.rsplit_once("/").unwrap().1.to_string()
}

#[test]
fn names_are_found_whatever_their_spelling() {
    for task in GlueTask::ALL {
        assert_eq!(GlueTask::from_name(task.name()), Ok(task));
    }
    assert_eq!(GlueTask::from_name("sts_b"), Ok(Stsb));
    let error = GlueTask::from_name("snli").unwrap_err().to_string();
    assert!(error.contains("'snli'") && error.contains("CoLA, SST-2"), "{error}");
}

#[test]
fn columns_are_those_of_the_task() {
    let data = read_two(Rte, RTE, RTE).unwrap();
    assert_eq!(texts(&data.train)[0], ("No \"news".into(), Some("is good.".into())));
    assert_eq!(data.train.labels, Labels::Classes(vec![1, 0]));
    assert_eq!(data.metrics, [Metric::Accuracy]);

    let cola = "gj04\t0\t*\tThey drank the pub.\ngj04\t1\t\tThe \"\" end.\n";
    let data = read_two(Cola, cola, cola).unwrap();
    assert_eq!(texts(&data.dev)[1], ("The \"\" end.".into(), None));
    assert_eq!(data.dev.labels, Labels::Classes(vec![0, 1]));
    assert_eq!(data.class_names().unwrap()[1], "acceptable");

    let mrpc = "\u{feff}Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n\
                1\t7\t8\tHe said \" no .\tNo , he said .\r\n";
    let data = read_two(Mrpc, mrpc, mrpc).unwrap();
    assert_eq!(
        texts(&data.train),
        [("He said \" no .".into(), Some("No , he said .".into()))]
    );
    assert_eq!(data.metrics, [Metric::F1, Metric::Accuracy]);

    let stsb = "index\tgenre\tsentence1\tsentence2\tscore\n0\tx\ta\tb\t3.800\n";
    let data = read_two(Stsb, stsb, stsb).unwrap();
    assert_eq!(
        (&data.train.labels, &data.target),
        (&Labels::Scores(vec![3.8]), &LabelKind::Score)
    );

    let sst = "sentence\tlabel\nit 's a charming\t1\n";
    assert_eq!(
        texts(&read_two(Sst2, sst, sst).unwrap().dev),
        [("it 's a charming".into(), None)]
    );
    let wnli = "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n";
    assert_eq!(read_two(Wnli, wnli, wnli).unwrap().dev.labels, Labels::Classes(vec![1]));
    let qnli = "index\tquestion\tsentence\tlabel\n0\twho\the\tnot_entailment\n";
    assert_eq!(
        texts(&read_two(Qnli, qnli, qnli).unwrap().dev),
        [("who".into(), Some("he".into()))]
    );
    let qqp = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\twho \"\twhom\t1\n\
               4\t5\t6\tbroken\n7\t8\t9\ta\tb\t0\n";
    let data = read_two(Qqp, qqp, qqp).unwrap();
    assert_eq!(texts(&data.train)[0], ("who \"".into(), Some("whom".into())));
    assert_eq!(data.train.labels, Labels::Classes(vec![1, 0]));
    assert_eq!(data.metrics, [Metric::F1, Metric::Accuracy]);
    let mnli = "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tneutral\tcontradiction\n";
    assert_eq!(read_two(Mnli, mnli, mnli).unwrap().dev.labels, Labels::Classes(vec![2]));
}

#[test]
fn texts_stay_in_their_files() {
    let read = read_two(Rte, RTE, RTE).unwrap();
    assert_eq!(read.train.file_bytes(), Some(RTE.len() as u64));
    assert_ne!(read.train.key(), read.dev.key());
    let path = read.dir.path().join("RTE/train.tsv");
    fs::write(&path, format!("{RTE}2\tc\td\tentailment\n")).unwrap();
    let last = read.train.texts().last().unwrap().unwrap_err().to_string();
    assert!(last.contains("train.tsv has changed while it was read"), "{last}");
    fs::remove_file(path).unwrap();
    assert!(read.train.texts().next().unwrap().is_err());
}

#[test]
fn mnli_has_two_splits_to_evaluate_on() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, label: &str| {
        let text = format!("index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tneutral\t{label}\n");
        fs::write(dir.path().join(file), text).unwrap();
    };
    write("train.tsv", "entailment");
    write("dev_matched.tsv", "neutral");
    let data = Mnli.read(dir.path()).unwrap();
    let sentence = data.split("dev_mismatched").unwrap_err().to_string();
    assert_eq!(
        sentence,
        "this data has no split called dev_mismatched; choose one of train, dev"
    );
    write("dev_mismatched.tsv", "contradiction");
    let data = Mnli.read(dir.path()).unwrap();
    let labels = |split| data.split(split).unwrap().labels.clone();
    assert_eq!(labels("dev"), Labels::Classes(vec![1]));
    assert_eq!(labels("dev_mismatched"), Labels::Classes(vec![2]));
    assert!(Mnli.has_pairs() && !Cola.has_pairs());
}

#[test]
fn every_mistake_names_file_and_line() {
    let rows = |rows: &str| format!("index\tsentence1\tsentence2\tlabel\n{rows}");
    assert_eq!(
        message(Rte, &rows("0\ta\tb\tentailment\n1\ta\tb")),
        "train.tsv line 3 has 3 columns instead of 4; restore the file or the line"
    );
    let split_by_tab = message(Rte, &rows("0\ta\tb\tc\tentailment\n"));
    assert!(
        split_by_tab.contains("line 2 has 5 columns instead of 4"),
        "{split_by_tab}"
    );
    assert_eq!(
        message(Rte, &rows("0\ta\tb\tperhaps\n")),
        "train.tsv line 2 has the label 'perhaps'; the labels are entailment, not_entailment"
    );
    assert_eq!(
        message(Wnli, &rows("0\ta\tb\t2\n")),
        "train.tsv line 2 has the label '2'; the labels are 0 to 1"
    );
    assert!(message(Stsb, RTE).contains("train.tsv line 1 names no column 'score'"));
    for wrong in ["nan", "inf", "-0.2", "5.001", "35", "high", ""] {
        let stsb = format!("sentence1\tsentence2\tscore\na\tb\t0\nc\td\t5\na\tb\t{wrong}\n");
        assert_eq!(
            message(Stsb, &stsb),
            format!("train.tsv line 4 has the score '{wrong}'; write a number from 0 to 5")
        );
    }
    assert!(message(Rte, &rows("")).contains("header but no line of data"));
    assert!(message(Rte, "").contains("train.tsv is empty"));
    let empty = tempfile::tempdir().unwrap();
    let missing = Rte.read(empty.path()).unwrap_err().to_string();
    assert!(
        missing.starts_with("there is no train.tsv in ") && missing.contains("RTE"),
        "{missing}"
    );
}
