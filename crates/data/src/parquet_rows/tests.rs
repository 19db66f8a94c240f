use super::*;
use crate::labelled::{self, Options, texts};
use crate::{Examples, HeldOutBy, LabelKind, Labels, Problem};
use parquet::basic::GzipLevel;
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs;

/// Writes a file with a text, a label and a score in each row, in groups of three rows; a row without a text has none.
fn write(path: &Path, rows: &[(Option<&str>, i64, f32)], compression: Compression, names: Option<&str>) {
    let schema = "message schema { optional binary text (UTF8); required int64 label; required float score; }";
    let metadata = names.map(|names| {
        let features = format!(r#"{{"info":{{"features":{{"label":{names}}}}}}}"#);
        vec![KeyValue::new(HUGGING_FACE.to_string(), features)]
    });
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_key_value_metadata(metadata)
        .build();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut file = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    for rows in rows.chunks(3) {
        let mut group = file.next_row_group().unwrap();
        let given: Vec<i16> = rows.iter().map(|(text, ..)| i16::from(text.is_some())).collect();
        let texts: Vec<ByteArray> = rows.iter().filter_map(|(text, ..)| Some((*text)?.into())).collect();
        let labels: Vec<i64> = rows.iter().map(|(_, label, _)| *label).collect();
        let scores: Vec<f32> = rows.iter().map(|(.., score)| *score).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<ByteArrayType>()
            .write_batch(&texts, Some(&given), None)
            .unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&labels, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<FloatType>().write_batch(&scores, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    file.close().unwrap();
}

const ROWS: [(Option<&str>, i64, f32); 7] = [
    (Some("a"), 1, 0.1),
    (Some("b \u{725b}"), 0, 2.5),
    (Some(""), 1, -1.0),
    (Some("d,\"\n"), 0, 1e30),
    (Some("e"), 1, 0.0),
    (Some("f"), 1, 3.0),
    (Some("g"), 0, 0.3),
];

/// The types of the column `label` as `datasets` writes them.
const NAMES: &str = r#"{"names":["pos","neg"],"_type":"ClassLabel"}"#;

fn classes(examples: &Examples) -> Vec<i32> {
    match &examples.labels {
        Labels::Classes(classes) => classes.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_compression_of_pure_rust_gives_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
    ] {
        write(&path, &ROWS, compression, None);
        let rows = parquet_rows(&path, &Columns::default(), true).unwrap();
        for (row, (text, label, _)) in rows.map(Result::unwrap).zip(ROWS) {
            assert_eq!(
                (row.text.as_str(), row.label),
                (text.unwrap(), Some(RawLabel::One(label.to_string())))
            );
        }
        assert_eq!(
            parquet_rows(&path, &Columns::default(), true).unwrap().count(),
            7,
            "{compression}"
        );
    }
}

#[test]
fn whole_numbers_are_classes_with_the_names_of_the_file_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train-00000-of-00001.parquet");
    write(&path, &ROWS, Compression::SNAPPY, Some(NAMES));
    write(
        &dir.path().join("validation-00000-of-00001.parquet"),
        &ROWS[..3],
        Compression::SNAPPY,
        Some(NAMES),
    );
    write(
        &dir.path().join("test-00000-of-00002.parquet"),
        &ROWS[..2],
        Compression::SNAPPY,
        Some(NAMES),
    );
    write(
        &dir.path().join("test-00001-of-00002.parquet"),
        &ROWS[2..4],
        Compression::SNAPPY,
        Some(NAMES),
    );
    let read = labelled::read(dir.path(), &Options::default()).unwrap();
    assert_eq!(read.target, LabelKind::Classes(vec!["pos".into(), "neg".into()]));
    assert_eq!(classes(&read.train), [1, 0, 1, 0, 1, 1, 0]);
    assert_eq!(classes(&read.dev), [1, 0, 1]);
    assert_eq!(classes(read.split("test").unwrap()), [1, 0, 1, 0]);
    // The same dataset below the folder of its page on the Hub.
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("data")).unwrap();
    fs::copy(&path, root.path().join("data/train-00000-of-00001.parquet")).unwrap();
    fs::write(root.path().join("README.md"), "A dataset.").unwrap();
    assert_eq!(
        classes(
            &labelled::read(
                root.path(),
                &Options {
                    held_out: 0.3,
                    ..Options::default()
                }
            )
            .unwrap()
            .train
        )
        .len(),
        5
    );
    // A model decides about its own classes.
    let options = Options {
        classes: Some(vec!["neg".into(), "pos".into()]),
        ..Options::default()
    };
    assert_eq!(classes(&labelled::read(dir.path(), &options).unwrap().dev), [0, 1, 0]);
}

#[test]
fn a_column_beside_texts_and_labels_holds_rows_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &ROWS, Compression::SNAPPY, None);
    let options = Options {
        columns: Columns {
            held_out_by: HeldOutBy::Time("score".into()),
            ..Columns::default()
        },
        held_out: 0.3,
        ..Options::default()
    };
    let read = labelled::read(&path, &options).unwrap();
    let texts: Vec<String> = read.dev.texts().map(|text| text.unwrap().0).collect();
    assert_eq!(texts, ["d,\"\n", "f"]);
    assert_eq!(classes(&read.dev), [0, 1]);
}

#[test]
fn numbers_without_names_are_classes_or_values() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &ROWS, Compression::SNAPPY, None);
    let options = Options {
        dev: Some(path.clone()),
        ..Options::default()
    };
    let read = labelled::read(&path, &options).unwrap();
    assert_eq!(read.target, LabelKind::Classes(vec!["0".into(), "1".into()]));
    let options = Options {
        problem: Problem::Regression,
        columns: Columns {
            label: Some("score".into()),
            ..Columns::default()
        },
        ..options
    };
    match labelled::read(&path, &options).unwrap().train.labels {
        Labels::Scores(scores) => assert_eq!(scores, ROWS.map(|(.., score)| score)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_columns_are_kept_where_labels_are_not_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &ROWS, Compression::SNAPPY, Some(NAMES));
    let found: Vec<_> = texts(&path, &Columns::default()).map(Result::unwrap).collect();
    assert_eq!(found.len(), 7);
    let ((text, second), record) = &found[3];
    assert_eq!((text.as_str(), second), ("d,\"\n", &None));
    assert_eq!(record.names(), ["text", "label", "score"]);
    assert_eq!(
        found[0].1.to_json(&[]).unwrap(),
        r#"{"text":"a","label":1,"score":0.1}"#
    );
    assert_eq!(found[1].1.cells().unwrap(), ["b \u{725b}", "0", "2.5"]);
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let sentence = |columns: &Columns| {
        let rows = parquet_rows(&path, columns, true).map(|rows| rows.collect::<Result<Vec<Row>>>());
        rows.and_then(|rows| rows).unwrap_err().to_string()
    };
    let columns = Columns::default();
    fs::write(&path, "text,label\na,b\n").unwrap();
    assert!(
        sentence(&columns).contains("a.parquet cannot be read as Parquet ("),
        "{}",
        sentence(&columns)
    );
    write(&path, &[(Some("a"), 1, 0.0), (None, 0, 0.0)], Compression::SNAPPY, None);
    assert!(
        sentence(&columns).contains("a.parquet row 2 has no text in 'text'"),
        "{}",
        sentence(&columns)
    );
    let other = Columns {
        text: Some("body".into()),
        ..Columns::default()
    };
    assert_eq!(
        sentence(&other),
        format!(
            "{} has no column 'body' (data.text); its columns are 'text', 'label', 'score'",
            path.display()
        )
    );
}

#[test]
fn damaged_files_are_errors_and_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &ROWS, Compression::SNAPPY, Some(NAMES));
    let whole = fs::read(&path).unwrap();
    let read = || parquet_rows(&path, &Columns::default(), true).map(|rows| rows.collect::<Result<Vec<Row>>>());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= [1, 0x80, 0xff][at % 3];
        fs::write(&path, &bytes).unwrap();
        // Rows, or a sentence: both are answers.
        let _ = read();
    }
    for end in 0..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let sentence = read().and_then(|rows| rows).unwrap_err().to_string();
        assert!(sentence.contains("a.parquet"), "{sentence}");
    }
}

#[test]
fn a_compression_that_is_not_read_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &ROWS[..3], Compression::SNAPPY, None);
    let whole = fs::read(&path).unwrap();
    // The codec is a byte of the metadata: twice its number.
    let changed = |codec: u8| -> Vec<String> {
        let places = (0..whole.len()).filter(|at| whole[*at] == 2);
        let sentences = places.filter_map(|at| {
            let mut bytes = whole.clone();
            bytes[at] = codec;
            fs::write(&path, &bytes).unwrap();
            let rows = parquet_rows(&path, &Columns::default(), true);
            rows.map(|_| ()).err().map(|error| error.to_string())
        });
        sentences
            .filter(|sentence| sentence.contains("is compressed with"))
            .collect()
    };
    for (codec, word) in [(6, "lzo"), (8, "brotli"), (12, "zstd")] {
        let sentences = changed(codec);
        // The texts and the labels; the score is not read.
        assert_eq!(sentences.len(), 2, "{word}");
        let expected = format!("is compressed with {word}, which Lessen does not read; write it again with snappy");
        assert!(sentences[0].contains(&expected), "{}", sentences[0]);
    }
}
