//! Vectors of texts against those of sentence-transformers.

use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_cpu::CpuBackend;
use lessen_nn::checkpoint::Integers;
use lessen_saved::calibration::Method;
use lessen_saved::embedding::{EmbedOptions, Embedder, Pooling, Prompt, parse_pooling};
use lessen_saved::quantization::{Agreement, QuantizedFolder, quantize_folder};
use lessen_saved::saved_run::AdapterOptions;
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/embeddings")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A copy of a folder of the fixtures.
fn copy(name: &str) -> TempDir {
    fn copy_all(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = to.join(path.file_name().unwrap());
            if path.is_dir() {
                copy_all(&path, &to);
            } else {
                fs::copy(&path, to).unwrap();
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    copy_all(&fixtures().join(name), dir.path());
    dir
}

fn write(dir: &Path, name: &str, value: &Value) {
    fs::write(dir.join(name), value.to_string()).unwrap();
}

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

fn open_with(dir: &Path, options: &EmbedOptions) -> Result<Embedder> {
    Embedder::open(dir, options, &cpu())
}

fn open(dir: &Path) -> Result<Embedder> {
    open_with(dir, &EmbedOptions::default())
}

/// The vectors of the recorded texts.
fn embed(embedder: &Embedder, prompt: Option<&str>) -> Vec<Vec<f32>> {
    embed_all(embedder, &read(&fixtures().join("expected.json"))["texts"], prompt)
}

/// The vectors of a list of texts.
fn embed_all(embedder: &Embedder, texts: &Value, prompt: Option<&str>) -> Vec<Vec<f32>> {
    let texts = texts.as_array().unwrap().iter();
    let texts: Vec<&str> = texts.map(|text| text.as_str().unwrap()).collect();
    let normalizes = embedder.normalizes();
    let prompt = prompt.map_or(Prompt::Default, Prompt::Text);
    embedder.embed_with(&texts, prompt, normalizes).unwrap().rows
}

/// The largest difference from the recorded vectors.
fn difference(found: &[Vec<f32>], case: &Value) -> f64 {
    let expected = case["rows"].as_array().unwrap();
    assert_eq!(found.len(), expected.len());
    let of_row = |(found, expected): (&Vec<f32>, &Value)| {
        let expected = expected.as_array().unwrap();
        assert_eq!(found.len(), expected.len());
        let differences = found
            .iter()
            .zip(expected)
            .map(|(a, b)| (f64::from(*a) - b.as_f64().unwrap()).abs());
        differences.fold(0.0, f64::max)
    };
    found.iter().zip(expected).map(of_row).fold(0.0, f64::max)
}

fn cases() -> Vec<Value> {
    read(&fixtures().join("expected.json"))["cases"]
        .as_array()
        .unwrap()
        .clone()
}

/// The fields of older versions for a `pooling_mode`.
fn older(settings: &Value) -> Value {
    let mode = &settings["pooling_mode"];
    let has = |name: &str| mode == name || mode.as_array().is_some_and(|list| list.iter().any(|own| own == name));
    json!({
        "word_embedding_dimension": 16,
        "pooling_mode_cls_token": has("cls"),
        "pooling_mode_mean_tokens": has("mean"),
        "pooling_mode_max_tokens": has("max"),
        "pooling_mode_mean_sqrt_len_tokens": has("mean_sqrt_len_tokens"),
        "pooling_mode_weightedmean_tokens": has("weightedmean"),
        "pooling_mode_lasttoken": has("lasttoken"),
        "include_prompt": settings["include_prompt"],
    })
}

#[test]
fn vectors_are_those_of_sentence_transformers() {
    for case in cases() {
        let (name, settings) = (case["folder"].as_str().unwrap(), &case["settings"]);
        let dir = copy(name);
        let mut configs = vec![None];
        if settings["pooling_mode"] != Value::Null {
            configs = vec![Some(settings.clone())];
            // The fields of older versions join the results in an order of their own.
            configs.extend((settings["pooling_mode"] != json!(["lasttoken", "mean"])).then(|| Some(older(settings))));
        }
        for config in configs {
            if let Some(config) = &config {
                write(&dir.path().join("1_Pooling"), "config.json", config);
            }
            let embedder = open(dir.path()).unwrap();
            assert_eq!(embedder.notes(), &[] as &[String], "{name}");
            let prompt = case["prompt"].as_str();
            let found = match &case["texts"] {
                Value::Null => embed(&embedder, prompt),
                own => embed_all(&embedder, own, prompt),
            };
            let difference = difference(&found, &case);
            assert!(
                difference <= 1e-5,
                "{name} {settings} {:?}: {difference}",
                case["prompt"]
            );
        }
    }
}

#[test]
fn a_text_has_its_vector_in_any_company() {
    let dir = fixtures().join("mean-normalize");
    let embedder = open(&dir).unwrap();
    let lengths: Vec<String> = (0..150).map(|i| "cat ".repeat(i * i % 37)).collect();
    let texts: Vec<&str> = lengths.iter().map(String::as_str).collect();
    let all = embedder.embed(&texts).unwrap();
    assert_eq!((all.rows.len(), embedder.dim(), embedder.max_length()), (150, 16, 12));
    for (text, row) in texts.iter().zip(&all.rows) {
        let alone = embedder.embed(&[text]).unwrap();
        let differences = alone.rows[0].iter().zip(row).map(|(a, b)| (a - b).abs());
        assert!(differences.fold(0.0, f32::max) < 1e-6, "{text}");
    }
    // [CLS], the words, [SEP]: at most 12 tokens.
    let tokens: Vec<usize> = (0..150).map(|i| (i * i % 37 + 2).min(12)).collect();
    assert_eq!(all.tokens, tokens);
    assert_eq!(all.cut, (0..150).filter(|i| i * i % 37 > 10).count());
    assert_eq!(embedder.embed(&[]).unwrap().rows.len(), 0);
}

#[test]
fn options_replace_what_the_folder_says() {
    let dir = fixtures().join("mean-normalize");
    let options = EmbedOptions {
        pooling: Some(parse_pooling("cls+max").unwrap()),
        normalize: Some(false),
        max_length: Some(5),
        ..EmbedOptions::default()
    };
    let embedder = open_with(&dir, &options).unwrap();
    let found = embedder.embed(&["the cat sat on the mat"]).unwrap();
    assert_eq!((embedder.dim(), found.tokens, found.cut), (32, vec![5], 1));
    let squares: f32 = found.rows[0].iter().map(|x| x * x).sum();
    assert!((squares - 1.0).abs() > 0.1);
    let too_long = EmbedOptions {
        max_length: Some(41),
        ..EmbedOptions::default()
    };
    let sentence = open_with(&dir, &too_long).err().unwrap().to_string();
    assert!(
        sentence.contains("--max-length 41") && sentence.contains("40"),
        "{sentence}"
    );
    assert!(
        parse_pooling("median")
            .unwrap_err()
            .to_string()
            .contains("no pooling `median`")
    );
}

#[test]
fn prompts_are_named_or_given() {
    let dir = copy("mean-normalize");
    let embedder = open(dir.path()).unwrap();
    let row = |prompt| Ok::<_, Error>(embedder.embed_with(&["cat"], prompt, true)?.rows.remove(0));
    assert_eq!(row(Prompt::Named("query")), row(Prompt::Text("query: ")));
    assert_ne!(row(Prompt::Named("query")), row(Prompt::Default));
    assert_eq!(row(Prompt::Named("document")), row(Prompt::Text("")));
    let sentence = row(Prompt::Named("title")).unwrap_err().to_string();
    assert!(sentence.contains("no prompt `title`; choose among"), "{sentence}");

    let by_name = row(Prompt::Named("query"));
    let mut config = read(&dir.path().join("config_sentence_transformers.json"));
    config["default_prompt_name"] = json!("query");
    write(dir.path(), "config_sentence_transformers.json", &config);
    let row = open(dir.path()).unwrap().embed(&["cat"]).unwrap().rows.remove(0);
    assert_eq!(Ok(row), by_name);

    let pooling = json!({ "embedding_dimension": 16, "pooling_mode": "mean", "include_prompt": false });
    write(&dir.path().join("1_Pooling"), "config.json", &pooling);
    let long = "the cat ".repeat(6);
    let sentence = open(dir.path())
        .unwrap()
        .embed_with(&["cat"], Prompt::Text(&long), true);
    let sentence = sentence.unwrap_err().to_string();
    assert!(sentence.contains("leaves no room for a text in the 12"), "{sentence}");
}

#[test]
fn a_folder_without_modules_has_the_pooling_beside_it_or_the_mean() {
    let whole = cases().remove(0);
    let dir = copy("mean-normalize");
    fs::remove_file(dir.path().join("modules.json")).unwrap();
    let embedder = open(dir.path()).unwrap();
    assert!(embedder.notes().is_empty());
    assert!(difference(&embed(&embedder, None), &whole) <= 1e-5);

    fs::remove_dir_all(dir.path().join("1_Pooling")).unwrap();
    fs::remove_dir_all(dir.path().join("2_Normalize")).unwrap();
    let options = EmbedOptions {
        normalize: Some(true),
        ..EmbedOptions::default()
    };
    let embedder = open_with(dir.path(), &options).unwrap();
    let notes = embedder.notes().join("\n");
    assert!(
        notes.contains("names no pooling; the mean of the last states is taken"),
        "{notes}"
    );
    assert!(difference(&embed(&embedder, None), &whole) <= 1e-5);

    // The Transformer may be in a folder of its own, as older versions wrote it.
    let dir = copy("mean-normalize");
    let own = dir.path().join("0_Transformer");
    fs::create_dir(&own).unwrap();
    for name in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        fs::rename(dir.path().join(name), own.join(name)).unwrap();
    }
    fs::remove_file(dir.path().join("sentence_bert_config.json")).unwrap();
    write(
        &own,
        "sentence_bert_config.json",
        &json!({ "max_seq_length": 12, "do_lower_case": true }),
    );
    let types = ["Transformer", "Pooling", "Normalize"];
    let modules: Vec<Value> = types
        .iter()
        .enumerate()
        .map(|(number, kind)| {
            json!({ "idx": number, "name": number.to_string(), "path": format!("{number}_{kind}"),
                    "type": format!("sentence_transformers.models.{kind}") })
        })
        .collect();
    write(dir.path(), "modules.json", &json!(modules));
    assert!(difference(&embed(&open(dir.path()).unwrap(), None), &whole) <= 1e-5);
}

#[test]
fn heads_and_runs_of_any_kind_embed_by_their_states() {
    // A classifier's states are those of the model without a head.
    let whole = cases().remove(0);
    let dir = copy("mean-normalize");
    let mut config = read(&dir.path().join("config.json"));
    for class in ["BertForSequenceClassification", "BertForMaskedLM", "BertModel"] {
        config["architectures"] = json!([class]);
        write(dir.path(), "config.json", &config);
        assert!(
            difference(&embed(&open(dir.path()).unwrap(), None), &whole) <= 1e-5,
            "{class}"
        );
    }
    config["model_type"] = json!("electra");
    write(dir.path(), "config.json", &config);
    let sentence = open(dir.path()).err().unwrap().to_string();
    assert!(
        sentence.contains("the field `model_type` is `electra`") && sentence.contains("distilbert"),
        "{sentence}"
    );
    assert!(!sentence.contains("vit"), "{sentence}");
}

#[test]
fn max_dense_and_layer_norm_follow_each_other() {
    let embedder = open(&fixtures().join("max-dense")).unwrap();
    assert_eq!((embedder.dim(), embedder.normalizes()), (6, false));
    let found = embedder.embed(&["a dog"; 70]).unwrap();
    assert_eq!(found.rows.len(), 70);
    assert!(
        found
            .rows
            .iter()
            .all(|row| row.iter().zip(&found.rows[0]).all(|(a, b)| (a - b).abs() < 1e-6))
    );
    assert_eq!(parse_pooling("max").unwrap(), [Pooling::Max]);
}

/// What a field of a file becomes, and what the sentence about it names.
#[test]
fn settings_that_are_not_followed_are_refused_by_name() {
    let class = "sentence_transformers.models";
    let module =
        |number: usize, kind: &str, path: &str| json!({ "idx": number, "name": "x", "path": path, "type": kind });
    let transformer = module(0, &format!("{class}.Transformer"), "");
    let pooling = module(1, &format!("{class}.Pooling"), "1_Pooling");
    let list = |more: &[Value]| json!([&[transformer.clone(), pooling.clone()], more].concat());
    let dense = |field: &str, value: Value| {
        let mut config = read(&fixtures().join("max-dense/2_Dense/config.json"));
        config[field] = value;
        ("max-dense", "2_Dense/config.json", config)
    };
    let of = |name: &'static str, file: &'static str, field: &str, value: Value| {
        let mut config = read(&fixtures().join(name).join(file));
        config[field] = value;
        (name, file, config)
    };
    let bert = "mean-normalize";
    let pooled = |field: &str, value: Value| of(bert, "1_Pooling/config.json", field, value);
    let reading = |field: &str, value: Value| of(bert, "sentence_bert_config.json", field, value);
    let prompts = |field: &str, value: Value| of(bert, "config_sentence_transformers.json", field, value);
    let modules = |value: Value| (bert, "modules.json", value);
    let cases = [
        (
            modules(list(&[module(2, &format!("{class}.LSTM"), "2_LSTM")])),
            "module LSTM",
        ),
        (modules(list(&[module(2, "mine.Pooling", "2_Mine")])), "mine.Pooling"),
        (
            modules(list(&[module(2, &format!("{class}.Normalize"), "../x")])),
            "../x",
        ),
        (
            modules(list(&[module(2, &format!("{class}.Pooling"), "1_Pooling")])),
            "Pooling in place 2",
        ),
        (modules(json!([transformer])), ""),
        (modules(json!([])), "no list of modules"),
        (modules(json!({ "a": 1 })), "no list of modules"),
        (modules(json!([pooling])), "Pooling in place 0"),
        (pooled("pooling_mode", json!("median")), "`median`"),
        (pooled("pooling_mode", json!([1])), "`pooling_mode` must be a name"),
        (pooled("embedding_dimension", json!(17)), "`embedding_dimension` is 17"),
        (
            pooled("pooling_mode_median", json!(true)),
            "`pooling_mode_median` is true",
        ),
        (
            pooled("include_prompt", json!("yes")),
            "`include_prompt` must be true or false",
        ),
        (reading("max_seq_length", json!(0)), "`max_seq_length` must be"),
        (
            reading("do_lower_case", json!(1)),
            "`do_lower_case` must be true or false",
        ),
        (reading("query_expansion", json!({ "length": 3 })), "`query_expansion`"),
        (reading("transformer_task", json!("fill-mask")), "`transformer_task`"),
        (
            reading("module_output_name", json!("sentence_embedding")),
            "`module_output_name`",
        ),
        (
            reading(
                "modality_config",
                json!({ "text": { "method": "forward", "method_output_name": "pooler_output" } }),
            ),
            "`text`",
        ),
        (prompts("default_prompt_name", json!("title")), "`default_prompt_name`"),
        (prompts("prompts", json!({ "query": 1 })), "`query`"),
        (prompts("truncate_dim", json!(8)), "`truncate_dim` is 8"),
        (
            dense("activation_function", json!("torch.nn.modules.activation.Softplus")),
            "Softplus",
        ),
        (dense("use_residual", json!(true)), "`use_residual`"),
        (dense("in_features", json!(5)), "`in_features` is 5"),
        (
            dense("module_input_name", json!("token_embeddings")),
            "`module_input_name`",
        ),
        (dense("out_features", json!(7)), "linear."),
    ];
    for ((name, file, value), expected) in cases {
        let dir = copy(name);
        write(dir.path(), file, &value);
        match open(dir.path()) {
            Ok(_) => assert_eq!(expected, "", "{file} {value} is taken"),
            Err(error) => {
                let sentence = error.to_string();
                let is_found = !expected.is_empty() && sentence.contains(expected) && error.exit_code() == 2;
                assert!(is_found, "{file} {value}: {sentence}");
            }
        }
    }
}

fn quantize(dir: &Path, out: &Path, integers: Integers, data: Option<&Path>) -> Result<QuantizedFolder> {
    let how = (integers, data.map(|data| (data, Method::MinMax)));
    quantize_folder(dir, WhichModel::Last, AdapterOptions::default(), how, out, &cpu())
}

/// The least cosine of two vectors of a text.
fn least_cosine(one: &[Vec<f32>], other: &[Vec<f32>]) -> f64 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let cosines = one.iter().zip(other);
    let cosines = cosines.map(|(a, b)| product(a, b) / (product(a, a) * product(b, b)).sqrt());
    cosines.fold(1.0, f64::min)
}

#[test]
fn a_folder_becomes_one_of_integers_that_embeds() {
    for name in ["cls", "last", "max-dense", "mean-normalize", "mpnet"] {
        let (source, out) = (fixtures().join(name), tempfile::tempdir().unwrap());
        let expected = embed(&open(&source).unwrap(), None);
        for integers in [Integers::Eight, Integers::Four { group: 32 }] {
            let out = out.path().join(format!("{integers:?}"));
            let found = quantize(&source, &out, integers, None).unwrap();
            assert!(!found.quantized.is_empty() && found.bytes[1] < found.bytes[0], "{name}");
            let least = match integers {
                Integers::Eight => 0.99,
                Integers::Four { .. } => 0.8,
            };
            let Agreement::Cosine(cosine) = found.agreement else {
                panic!("{name} is compared by its logits");
            };
            assert!(cosine > least, "{name}: {cosine}");
            let written = open(&out).unwrap();
            assert!(written.multiplies_integers());
            let cosine = least_cosine(&embed(&written, None), &expected);
            assert!(cosine > least, "{name}: {cosine}");
            for file in [
                "modules.json",
                "1_Pooling/config.json",
                "config_sentence_transformers.json",
            ] {
                assert_eq!(
                    fs::read(out.join(file)).unwrap(),
                    fs::read(source.join(file)).unwrap(),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn tables_that_a_folder_of_integers_has_in_floats_are_not_rounded() {
    let (source, folder) = (fixtures().join("mean-normalize"), tempfile::tempdir().unwrap());
    let out = folder.path().join("small");
    let found = quantize(&source, &out, Integers::Eight, None).unwrap();
    assert!(
        found.left.keys().any(|name| name.contains("word_embeddings")),
        "{:?}",
        found.left
    );
    let with = |precision| EmbedOptions {
        precision: Some(precision),
        ..EmbedOptions::default()
    };
    // Products of rows by integers differ from those by what the integers stand for by the rounding of rows alone.
    let floats = embed(&open_with(&out, &with(Precision::F32)).unwrap(), None);
    let integers = embed(&open_with(&out, &with(Precision::Int8)).unwrap(), None);
    let own = embed(&open(&out).unwrap(), None);
    assert_eq!(integers, own, "the folder's own precision");
    let cosine = least_cosine(&integers, &floats);
    assert!((0.999..1.0).contains(&cosine), "{cosine}");
}

#[test]
fn ranges_from_data_are_refused_for_models_that_embed_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("small");
    let refused = quantize(
        &fixtures().join("cls"),
        &out,
        Integers::Eight,
        Some(Path::new("texts.txt")),
    );
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("leave out --calibrate"), "{refused}");
    assert!(!out.exists());
}
