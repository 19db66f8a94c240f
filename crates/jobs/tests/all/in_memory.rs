//! Data in memory is read as the equal files are: jobs on it leave the same bytes, and resume with the same data alone.

use lessen_base::Result;
use lessen_cpu::CpuBackend;
use lessen_data::images::{Image, ImageLabels, ImagesInMemory, png};
use lessen_data::memory::{DataInMemory, Splits};
use lessen_data::table::{ColumnValues, TableInMemory};
use lessen_data::tagged::TaggedWords;
use lessen_jobs::SCHEMA;
use lessen_jobs::condensing::condense;
use lessen_jobs::job::{CONDENSATION, JobKind, SEARCH};
use lessen_jobs::searching::search;
use lessen_jobs::training::{Request, train};
use lessen_task::device::NewBackend;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// The files of a folder by their names.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let of_file = |path: PathBuf| (path.file_name().unwrap().into(), fs::read(&path).unwrap());
    entries.filter(|path| path.is_file()).map(of_file).collect()
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A new job with the settings of a recipe.
fn new(recipe: &str, flags: &[String], out: &Path) -> Request {
    let mut settings = SCHEMA.parse(recipe, "mine.toml").unwrap();
    flags.iter().for_each(|flag| settings.set_flag(flag).unwrap());
    Request::new(settings, out.to_path_buf())
}

fn resumed(out: &Path, flag: &str) -> Request {
    Request::resume(out.to_path_buf(), None, |settings| settings.set_flag(flag)).unwrap()
}

fn refused<T>(done: Result<T>) -> String {
    let error = done.err().expect("a refusal");
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

/// [`compare_with`] files that hold the bytes of the data.
fn compare(recipe: &str, path: &Path, data: DataInMemory, other: DataInMemory) {
    compare_with((path, false), recipe, data, other);
}

/// Trains on files and on the same data in memory, two steps and after a resumption two more, and compares the models.
/// Other data, and none, is refused when the run is resumed; so are files that encode the data.
fn compare_with((path, are_encoded): (&Path, bool), recipe: &str, data: DataInMemory, other: DataInMemory) {
    let dir = tempfile::tempdir().unwrap();
    let (named, given) = (dir.path().join("named"), dir.path().join("given"));
    let recipe = format!("train.steps = 2\ntrain.batch = 4\ntrain.lr = 0.01\ntrain.checkpoint_every = 2\n{recipe}");
    let flag = format!("data.path={}", path.display());
    train(&new(&recipe, std::slice::from_ref(&flag), &named), &cpu()).unwrap();
    train(&new(&recipe, &[], &given).with_data(data.clone()), &cpu()).unwrap();
    assert!(files(&named.join("model")) == files(&given.join("model")), "{recipe}");
    assert!(
        !fs::read_to_string(given.join("config.toml"))
            .unwrap()
            .contains("\npath")
    );

    let sentence = refused(train(&resumed(&given, "train.steps=4"), &cpu()));
    assert!(
        sentence.contains("began with data in memory, and none is given"),
        "{sentence}"
    );
    let sentence = refused(train(&resumed(&given, "train.steps=4").with_data(other), &cpu()));
    assert!(sentence.contains("data in memory is not what the run"), "{sentence}");
    train(&resumed(&named, "train.steps=4"), &cpu()).unwrap();
    train(&resumed(&given, "train.steps=4").with_data(data.clone()), &cpu()).unwrap();
    assert!(files(&named.join("model")) == files(&given.join("model")), "{recipe}");
    let on_files = train(&resumed(&given, &flag), &cpu());
    if are_encoded {
        let sentence = refused(on_files);
        assert!(sentence.contains("is not what the run"), "{sentence}");
    } else {
        on_files.unwrap();
    }
    let sentence = refused(train(&resumed(&named, "train.steps=6").with_data(data), &cpu()));
    assert!(
        sentence.contains("names data, and data in memory is given, too"),
        "{sentence}"
    );
}

fn texts<S: ToString>(texts: impl IntoIterator<Item = S>) -> ColumnValues {
    ColumnValues::Texts(texts.into_iter().map(|text| text.to_string()).collect())
}

fn table(columns: Vec<(&str, ColumnValues)>) -> DataInMemory {
    let columns = columns.into_iter().map(|(name, values)| (name.to_string(), values));
    DataInMemory::Table(Splits::of(TableInMemory::new(columns.collect()).unwrap()))
}

#[test]
fn texts_with_labels_are_learned_as_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Vec<(String, &str)> = (0..40)
        .map(|i| (format!("word{i} and more"), ["ham", "spam"][i % 2]))
        .collect();
    let lines: String = rows.iter().map(|(text, label)| format!("{text},{label}\n")).collect();
    let path = dir.path().join("mail.csv");
    fs::write(&path, format!("text,label\n{lines}")).unwrap();
    let of = |count: usize| {
        let pairs = rows[..count].iter().map(|(text, _)| (text.clone(), None)).collect();
        let labels = texts(rows[..count].iter().map(|(_, label)| label));
        DataInMemory::Table(Splits::of(TableInMemory::of_texts(pairs, labels).unwrap()))
    };
    let recipe = "model.kind = \"linear\"\ndata.format = \"labelled\"\ndata.max_length = 16\n";
    compare(recipe, &path, of(40), of(39));
}

#[test]
fn pairs_with_several_labels_and_a_group_are_learned_as_from_json_lines() {
    let dir = tempfile::tempdir().unwrap();
    let labels = |i: usize| [vec!["x"], vec!["x", "y"], vec![]][i % 3].clone();
    let line = |i: usize| {
        let tags: Vec<String> = labels(i).iter().map(|tag| format!("\"{tag}\"")).collect();
        format!(
            "{{\"a\": \"one {i}\", \"b\": \"two\", \"tags\": [{}], \"who\": {}}}\n",
            tags.join(", "),
            i % 5
        )
    };
    let path = dir.path().join("pairs.jsonl");
    fs::write(&path, (0..30).map(line).collect::<String>()).unwrap();
    let of = |word: &str| {
        let lists = (0..30).map(|i| labels(i).iter().map(|tag| tag.to_string()).collect());
        table(vec![
            ("a", texts((0..30).map(|i| format!("{word} {i}")))),
            ("b", texts((0..30).map(|_| "two"))),
            ("tags", ColumnValues::Lists(lists.collect())),
            (
                "who",
                ColumnValues::Numbers((0..30).map(|i| f64::from(i % 5)).collect()),
            ),
        ])
    };
    let recipe = "model.kind = \"linear\"\ndata = { format = \"labelled\", text = \"a\", text_pair = \"b\", label = \"tags\", \
                  group_by = \"who\", problem = \"multi_label_classification\", max_length = 32 }\n";
    compare(recipe, &path, of("one"), of("two"));
}

#[test]
fn rows_of_a_table_are_learned_as_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let price = |i: usize| 0.1 * i as f64 - 1.0 / 3.0;
    let age = |i: usize| {
        if i.is_multiple_of(7) {
            f64::NAN
        } else {
            (i * 13 % 31) as f64
        }
    };
    let city = |i: usize| ["Oslo", "Rome"][i / 2 % 2];
    let line = |i: usize| format!("{},{},{}\n", age(i).to_string().replace("NaN", ""), city(i), price(i));
    let path = dir.path().join("flats.csv");
    let lines: String = (0..40).map(line).collect();
    fs::write(&path, format!("age,city,price\n{lines}")).unwrap();
    let of = |more: f64| {
        table(vec![
            ("age", ColumnValues::Numbers((0..40).map(|i| age(i) + more).collect())),
            ("city", texts((0..40).map(city))),
            ("price", ColumnValues::Numbers((0..40).map(price).collect())),
        ])
    };
    let recipe = "model.kind = \"linear-array\"\ndata.format = \"table\"\ndata.label = \"price\"\n";
    compare(recipe, &path, of(0.0), of(1.0));
}

#[test]
fn sentences_are_learned_as_from_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let sentence = |i: usize| TaggedWords {
        words: vec![format!("Ada{i}"), "wrote".into()],
        labels: vec!["B-PER".into(), "O".into()],
    };
    let written = |range: std::ops::Range<usize>| -> String {
        let lines = range.map(|i| format!("{}\tB-PER\nwrote\tO\n\n", sentence(i).words[0]));
        lines.collect()
    };
    write(&dir.path().join("train.txt"), written(0..12).as_bytes());
    write(&dir.path().join("dev.txt"), written(12..20).as_bytes());
    let of = |dev: std::ops::Range<usize>| {
        DataInMemory::Sentences(Splits {
            dev: Some(dev.map(sentence).collect()),
            ..Splits::of((0..12).map(sentence).collect())
        })
    };
    let recipe = "model = { kind = \"bert\", layers = 1, width = 8, heads = 2, ffn = 16 }\n\
                  data = { format = \"tagged\", tokenizer = \"characters\", max_length = 16 }\n";
    compare(recipe, dir.path(), of(12..20), of(11..19));
}

#[test]
fn plain_texts_are_learned_as_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let text = |number: usize| format!("text {number} has words.\n\nand more of them\n").repeat(6);
    (0..3).for_each(|number| write(&dir.path().join(format!("{number}.txt")), text(number).as_bytes()));
    let of = |first: usize| DataInMemory::Texts(Splits::of((first..first + 3).map(|i| Arc::from(text(i))).collect()));
    for (kind, format) in [("gpt2", "text"), ("bert", "masked")] {
        let recipe = format!(
            "model = {{ kind = \"{kind}\", layers = 1, width = 8, heads = 2, ffn = 16 }}\n\
             data = {{ format = \"{format}\", tokenizer = \"characters\", max_length = 8 }}\n"
        );
        compare(&recipe, dir.path(), of(0), of(1));
    }
}

/// An idx file of bytes.
fn idx(path: &Path, shape: &[u8], bytes: &[u8]) {
    let mut file = vec![0, 0, 8, shape.len() as u8];
    file.extend(shape.iter().flat_map(|size| [0, 0, 0, *size]));
    file.extend(bytes);
    write(path, &file);
}

/// Pixels of images of 8 x 8, and their classes: dark ones and bright ones.
fn shades(count: usize) -> (Vec<u8>, Vec<u8>) {
    let label = |image: usize| (image % 2) as u8;
    let pixel = |at: usize| (at * 37 % 90) as u8 + 150 * label(at / 64);
    ((0..count * 64).map(pixel).collect(), (0..count).map(label).collect())
}

/// A folder of images with a test split, and the same images in memory.
fn shaded(dir: &Path) -> DataInMemory {
    let split = |name: &str, count: u8| {
        let (pixels, labels) = shades(count.into());
        idx(&dir.join(format!("{name}-images-idx3-ubyte")), &[count, 8, 8], &pixels);
        idx(&dir.join(format!("{name}-labels-idx1-ubyte")), &[count], &labels);
        let labels = labels.iter().map(|label| i64::from(*label)).collect();
        ImagesInMemory::of_array(&[count.into(), 8, 8], pixels, ImageLabels::Numbers(labels)).unwrap()
    };
    write(&dir.join("classes.txt"), b"dark\nbright\n");
    DataInMemory::Images(Splits {
        test: Some(split("t10k", 8)),
        classes: Some(vec!["dark".into(), "bright".into()]),
        ..Splits::of(split("train", 24))
    })
}

/// [`shaded`] with another pixel in the training split.
fn other_shades() -> DataInMemory {
    let split = |count: usize, brighter: u8| {
        let (mut pixels, labels) = shades(count);
        pixels[5] += brighter;
        let labels = ImageLabels::Numbers(labels.iter().map(|label| i64::from(*label)).collect());
        ImagesInMemory::of_array(&[count, 8, 8], pixels, labels).unwrap()
    };
    DataInMemory::Images(Splits {
        test: Some(split(8, 0)),
        ..Splits::of(split(24, 1))
    })
}

#[test]
fn images_of_one_size_are_learned_as_from_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let data = shaded(dir.path());
    compare(
        "model.kind = \"linear-array\"\ndata.format = \"images\"\n",
        dir.path(),
        data,
        other_shades(),
    );
}

#[test]
fn images_of_several_sizes_are_learned_as_from_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let image = |number: usize| {
        let (height, width) = (8 + number % 3, 8 + number % 2);
        let pixels = (0..height * width).map(|at| (at * at + 31 * number * number) as u8);
        Image::new([height, width, 1], pixels.collect())
    };
    let class = |number: usize| ["cat", "owl"][number / 8];
    let of = |first: usize| {
        let names = (0..16).map(|number| class(number).to_string()).collect();
        let images = (first..first + 16).map(image).collect();
        DataInMemory::Images(Splits::of(
            ImagesInMemory::of_images(images, ImageLabels::Names(names)).unwrap(),
        ))
    };
    for number in 0..16 {
        write(
            &dir.path().join(class(number)).join(format!("{number:02}.png")),
            &png(&image(number)),
        );
    }
    let recipe = "model.kind = \"linear-array\"\ndata.format = \"images\"\nimage.size = 8\ndata.held_out = 0.25\n";
    compare_with((dir.path(), true), recipe, of(0), of(1));
}

/// Runs a job on files and on the same images in memory, and compares files of both folders.
fn compare_jobs(kind: JobKind, recipe: &str, run: &dyn Fn(&Request) -> Result<()>, compared: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let (named, given) = (dir.path().join("named"), dir.path().join("given"));
    let data = shaded(&dir.path().join("data"));
    let flag = format!("data.path={}", dir.path().join("data").display());
    run(&new(recipe, &[flag], &named)).unwrap();
    run(&new(recipe, &[], &given).with_data(data.clone())).unwrap();
    for name in compared {
        assert!(
            fs::read(named.join(name)).unwrap() == fs::read(given.join(name)).unwrap(),
            "{name}"
        );
    }
    let again = || Request::resume_job(kind, given.clone(), None, |_| Ok(())).unwrap();
    let sentence = refused(run(&again()));
    assert!(
        sentence.contains("began with data in memory, and none is given"),
        "{sentence}"
    );
    let sentence = refused(run(&again().with_data(other_shades())));
    assert!(
        sentence.starts_with("the data in memory is not what the "),
        "{sentence}"
    );
    run(&again().with_data(data)).unwrap();
}

#[test]
fn images_in_memory_are_condensed_and_searched_on_as_files_are() {
    let recipe = "model.kind = \"convnet-3\"\ndata.format = \"images\"\n";
    let condensation = format!(
        "{recipe}condense = {{ width = 4, depth = 1, real_batch = 4, updates = 2, epochs = 1, iterations = 2 }}\n"
    );
    let condensed = |request: &Request| condense(request, &cpu()).map(|_| ());
    compare_jobs(
        CONDENSATION,
        &condensation,
        &condensed,
        &["condensed.npz", "classes.txt", "preprocessor_config.json"],
    );
    let searched = |request: &Request| search(request, &cpu()).map(|_| ());
    let of_search = format!(
        "{recipe}search = {{ width = 0.125, depth = 1, kernels = \"3\", expansions = \"1,2\", bits = \"2,8\", batch = 8, \
         epochs = 2, frozen_epochs = 1, validation = 0.5 }}\n"
    );
    compare_jobs(SEARCH, &of_search, &searched, &["architecture.json"]);
}

#[test]
fn a_format_that_does_not_read_such_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let request = new(
        "model.kind = \"convnet-3\"\ndata.format = \"images\"\n",
        &[],
        &dir.path().join("run"),
    );
    let data = table(vec![("text", texts(["a"])), ("label", texts(["b"]))]);
    let sentence = refused(train(&request.with_data(data), &cpu()));
    assert!(
        sentence.contains("does not read a table in memory, which is what is given; set it to labelled or table"),
        "{sentence}"
    );
}

/// The data with these weights of its training examples.
fn weighted(data: DataInMemory, weights: Vec<f32>) -> DataInMemory {
    let weights = Some(weights.into());
    match data {
        DataInMemory::Table(splits) => DataInMemory::Table(Splits { weights, ..splits }),
        DataInMemory::Images(splits) => DataInMemory::Images(Splits { weights, ..splits }),
        other => panic!("{} has no weights", other.word()),
    }
}

#[test]
fn weights_of_examples_by_their_classes_train_as_class_weights_do() {
    let of_class = |row: usize| [0.25, 4.0][row % 2];
    let words = |row: usize| format!("{} {}", ["alpha", "beta"][row % 2], row % 5);
    let numbers = (0..40).map(|row| f64::from((row * 7 % 11) as u8)).collect();
    let labels = || texts((0..40).map(|row| ["a", "b"][row % 2]));
    let bytes = (0..40 * 16).map(|i| (i * 31 % 251) as u8).collect();
    let images = ImageLabels::Numbers((0..40).map(|row| row % 2).collect());
    let cases = [
        (
            "data.format = \"labelled\"\nmodel.kind = \"linear\"",
            table(vec![("text", texts((0..40).map(words))), ("label", labels())]),
        ),
        (
            "data.format = \"table\"\nmodel.kind = \"mlp\"",
            table(vec![("x", ColumnValues::Numbers(numbers)), ("label", labels())]),
        ),
        (
            "data.format = \"images\"\nmodel.kind = \"linear-array\"",
            DataInMemory::Images(Splits::of(
                ImagesInMemory::of_array(&[40, 4, 4], bytes, images).unwrap(),
            )),
        ),
    ];
    for (recipe, data) in cases {
        let dir = tempfile::tempdir().unwrap();
        let recipe = format!("train.steps = 4\ntrain.batch = 5\ntrain.lr = 0.01\ntrain.accumulate = 2\n{recipe}");
        let model = |name: &str, more: &str, data: DataInMemory| {
            let out = dir.path().join(name);
            train(&new(&format!("{recipe}\n{more}"), &[], &out).with_data(data), &cpu()).unwrap();
            files(&out.join("model"))
        };
        let own = model("own", "", weighted(data.clone(), (0..40).map(of_class).collect()));
        let of_classes = model("classes", "train.class_weights = \"0.25,4\"", data.clone());
        assert!(own == of_classes, "{recipe}");
        assert!(own != model("none", "", data.clone()), "{recipe}");
        for (weights, said) in [
            (vec![1.0; 39], "there are 39 weights for 40 training examples"),
            (vec![-1.0; 40], "training example 0 has the weight -1"),
            (vec![0.0; 40], "all training examples have zero weight"),
        ] {
            let request = new(&recipe, &[], &dir.path().join("refused")).with_data(weighted(data.clone(), weights));
            let sentence = refused(train(&request, &cpu()));
            assert!(sentence.contains(said), "{sentence}");
        }
    }
}

#[test]
fn weights_of_targets_and_a_resumption_with_others() {
    let numbers = |factor: usize| ColumnValues::Numbers((0..40).map(|row| (row * factor % 11) as f64 / 3.0).collect());
    let data = || table(vec![("x", numbers(7)), ("label", numbers(3))]);
    let recipe = "train.steps = 4\ntrain.batch = 5\ntrain.lr = 0.01\ndata.format = \"table\"\nmodel.kind = \"mlp\"\n\
                  data.problem = \"regression\"";
    let dir = tempfile::tempdir().unwrap();
    let model = |name: &str, data: DataInMemory| {
        let out = dir.path().join(name);
        train(&new(recipe, &[], &out).with_data(data), &cpu()).unwrap();
        files(&out.join("model"))
    };
    let (plain, halves) = (model("plain", data()), model("halves", weighted(data(), vec![0.5; 40])));
    assert!(plain == halves);
    let other = weighted(data(), vec![2.0; 40]);
    let sentence = refused(train(
        &resumed(&dir.path().join("halves"), "train.steps=6").with_data(other),
        &cpu(),
    ));
    assert!(sentence.contains("data in memory is not what the run"), "{sentence}");
}
