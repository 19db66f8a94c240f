//! `lessen convert --as llama`

use crate::support::*;
use lessen_base::SplitMix64;
use lessen_graph::{Array, Trace, evaluate_exactly};
use lessen_nn::checkpoint::{self, Entry, WeightDtype};
use lessen_nn::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use lessen_nn::models::llama::{LlamaConfig, LlamaFamily, LlamaForCausalLM};
use lessen_nn::{Activation, AttentionConfig, BatchShape, Cx, Model, NormKind, Rotary, initialize};
use serde_json::{Value, json as value};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

const WORDS: usize = 31;
const WIDTH: usize = 16;

/// A GPT-NeoX that is a Llama but for its norms and its feed-forward layers.
fn neox() -> GptNeoxConfig {
    GptNeoxConfig {
        vocab_size: WORDS,
        hidden_size: WIDTH,
        intermediate_size: 24,
        num_hidden_layers: 3,
        num_attention_heads: 4,
        use_parallel_residual: false,
        attention: AttentionConfig {
            rotary: Rotary {
                base: 100.0,
                ..Rotary::DEFAULT
            },
            ..GptNeoxConfig::attention(4)
        },
        ..GptNeoxConfig::default()
    }
}

fn olmo() -> LlamaConfig {
    LlamaConfig {
        family: LlamaFamily::Olmo,
        vocab_size: WORDS,
        hidden_size: WIDTH,
        intermediate_size: 24,
        num_hidden_layers: 3,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 4,
        rms_norm_eps: LlamaFamily::OLMO_EPS,
        ..LlamaConfig::default()
    }
}

/// Writes a model whose parameters are random and have any mean, but for the shift of the last norm.
fn save(dir: &Path, model: &Model, dtype: WeightDtype) {
    let mut weights = initialize(&model.parameters(), 1);
    for (name, weight) in &mut weights {
        let mut random = SplitMix64::named(1, name);
        let first = if name.contains("norm") && name.ends_with("weight") {
            1.0
        } else {
            0.05
        };
        let number = || (first + 0.5 * (random.unit() - 0.5)) as f32;
        weight.data.fill_with(number);
        if name.ends_with("final_layer_norm.bias") {
            weight.data.fill(0.0);
        }
    }
    let entries = weights.iter().map(|(name, weight)| Entry {
        name: name.clone(),
        ty: lessen_graph::Type::f32(&weight.shape),
    });
    let entries: Vec<Entry> = entries.collect();
    let show = |entry: &Entry, sink: &mut checkpoint::Sink<'_>| sink(&weights[&entry.name].data);
    checkpoint::save_with(dir, &model.config_json(), dtype, &entries, show).unwrap();
    fs::write(dir.join("tokenizer_config.json"), "{}").unwrap();
}

/// The logits of two texts, in `f64`.
fn logits(dir: &Path) -> Vec<f64> {
    let model = Model::from_dir(dir).unwrap();
    let loaded = checkpoint::load(dir, &model.parameters(), &|_| false).unwrap();
    assert!(loaded.extra.is_empty(), "{:?}", loaded.extra);
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    trace.output("logits", model.logits(cx, BatchShape::Padded { size: 2, length: 9 }));
    let mut random = SplitMix64::new(7);
    let tokens: Vec<i32> = (0..18).map(|_| random.below(WORDS as u64) as i32).collect();
    let mut given = HashMap::from([("tokens".to_string(), Array::i32(&[2, 9], &tokens))]);
    for (name, weight) in loaded.weights {
        let data = weight.data.iter().map(|x| f64::from(*x)).collect();
        given.insert(name, Array::f32(&weight.shape, data));
    }
    evaluate_exactly(&trace.finish(), &given)
        .unwrap()
        .remove("logits")
        .unwrap()
        .data
}

fn config(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("config.json")).unwrap()).unwrap()
}

/// Converts a model and compares the logits of both folders; the report and the new `config.json`.
fn converted(model: impl Into<Model>, dtype: WeightDtype, tolerance: f64) -> (Value, Value) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (old, new) = (dir.join("old"), dir.join("new"));
    save(&old, &model.into(), dtype);
    let report = json(dir, &["convert", "old", "-o", "new", "--as", "llama", "--json"]);
    let (before, after) = (logits(&old), logits(&new));
    let largest = before.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    let apart = before.iter().zip(&after).map(|(a, b)| (a - b).abs() / largest);
    let apart = apart.fold(0.0, f64::max);
    assert!(apart < tolerance, "{apart}");
    let told = report["difference"]["relative"].as_f64().unwrap();
    assert!(told < tolerance && report["left"] == value!([]), "{report}");
    assert_eq!((&report["as"], &report["recentred"]), (&value!("llama"), &value!(0)));
    assert_eq!(fs::read(new.join("tokenizer_config.json")).unwrap(), b"{}");
    let written = config(&new);
    for (field, expected) in [
        ("architectures", value!(["LlamaForCausalLM"])),
        ("model_type", value!("llama")),
        ("rms_norm_eps", value!(1e-5)),
        ("head_dim", value!(4)),
        ("dtype", config(&old)["dtype"].clone()),
    ] {
        assert_eq!(written[field], expected, "{field}");
    }
    assert!(
        !written
            .as_object()
            .unwrap()
            .keys()
            .any(|field| field.starts_with("lessen_"))
    );
    (report, written)
}

#[test]
fn a_sequential_gpt_neox_becomes_a_llama() {
    for attention_bias in [true, false] {
        for tie_word_embeddings in [true, false] {
            let config = GptNeoxConfig {
                attention_bias,
                tie_word_embeddings,
                ..neox()
            };
            let (report, config) = converted(GPTNeoXForCausalLM { config }, WeightDtype::F32, 1e-5);
            assert_eq!(report["converted"].as_array().unwrap().len(), 7);
            for (field, expected) in [
                ("attention_bias", value!(true)),
                ("mlp_bias", value!(true)),
                ("hidden_act", value!("gelu")),
                ("rope_theta", value!(100.0)),
                ("num_key_value_heads", value!(4)),
                ("tie_word_embeddings", value!(false)),
            ] {
                assert_eq!(config[field], expected, "{field}");
            }
        }
    }
    let config = GptNeoxConfig {
        hidden_act: Activation::Relu,
        norm: NormKind::Crms,
        ..neox()
    };
    let model = GPTNeoXForCausalLM { config };
    converted(model.clone(), WeightDtype::Bf16, 0.1);
    assert_eq!(converted(model, WeightDtype::F16, 0.01).1["dtype"], "float16");
}

#[test]
fn an_olmo_becomes_a_llama() {
    for attention_bias in [true, false] {
        for tie_word_embeddings in [true, false] {
            let config = LlamaConfig {
                attention_bias,
                tie_word_embeddings,
                ..olmo()
            };
            let (_, config) = converted(LlamaForCausalLM { config }, WeightDtype::F32, 1e-5);
            for (field, expected) in [
                ("attention_bias", value!(attention_bias)),
                ("mlp_bias", value!(false)),
                ("hidden_act", value!("silu")),
                ("num_key_value_heads", value!(2)),
                ("tie_word_embeddings", value!(false)),
            ] {
                assert_eq!(config[field], expected, "{field}");
            }
        }
    }
}

#[test]
fn a_converted_model_is_trained_as_a_llama() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = "to be or not to be that is the question\n".repeat(40);
    fs::write(dir.join("text.txt"), text).unwrap();
    let own = ["train", "shakespeare", "--data", "text.txt", "--out", "first"];
    let sizes = [
        "--set",
        "model.kind=gpt_neox",
        "--set",
        "model.layers=1",
        "--set",
        "model.width=16",
    ];
    let rest = [
        "--set",
        "model.heads=2",
        "--set",
        "model.ffn=24",
        "--set",
        "data.max_length=8",
        "--steps",
        "1",
    ];
    succeed(dir, &[&own[..], &sizes, &rest].concat());
    // Another GPT-NeoX with the vocabulary of this one.
    let mut model = Model::from_dir(&dir.join("first/model")).unwrap();
    let Model::GPTNeoXForCausalLM(inner) = &mut model else {
        panic!("{model:?}")
    };
    inner.config.use_parallel_residual = false;
    inner.config.attention.rotary.width = None;
    save(&dir.join("first/model"), &model, WeightDtype::F32);
    let said = |folder: &str| {
        let prompt = ["--prompt", "to be", "--tokens", "20", "--temperature", "0"];
        succeed(dir, &[&["generate", folder], &prompt[..]].concat())
    };
    let printed = succeed(dir, &["convert", "first/model", "-o", "new", "--as", "llama"]);
    assert!(printed.contains("written to new as a Llama"), "{printed}");
    assert_eq!(said("new"), said("first/model"));
    let tuned = [
        "train", "llama-lm", "--init", "new", "--data", "text.txt", "--out", "second",
    ];
    let rest = ["--steps", "2", "--set", "data.max_length=8"];
    succeed(dir, &[&tuned[..], &rest].concat());
    assert_eq!(config(&dir.join("second/model"))["mlp_bias"], true);
}

#[test]
fn what_no_llama_computes_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let fixture = |path: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        text(&root.join(path)).to_string()
    };
    let model = |name: &str| fixture(&format!("nn/tests/fixtures/{name}"));
    let save = |name: &str, change: fn(&mut GptNeoxConfig)| {
        let mut config = neox();
        change(&mut config);
        save(&dir.join(name), &GPTNeoXForCausalLM { config }.into(), WeightDtype::F32);
    };
    save("parallel", |config| config.use_parallel_residual = true);
    save("part", |config| config.attention.rotary.width = Some(2));
    save("alibi", |config| config.attention.position = lessen_nn::Position::Alibi);
    save("shifted", |_| ());
    save("good", |_| ());
    let shifted = dir.join("shifted");
    let spec = Model::from_dir(&shifted).unwrap().parameters();
    let mut weights = checkpoint::load(&shifted, &spec, &|_| false).unwrap().weights;
    weights.get_mut("gpt_neox.final_layer_norm.bias").unwrap().data[3] = 0.1;
    let fields = Model::from_dir(&shifted).unwrap().config_json();
    checkpoint::save(&shifted, &fields, &weights).unwrap();

    let before = fs::read_dir(dir).unwrap().count();
    let refused = |source: &str, more: &[&str], part: &str| {
        let sentence = refuse(dir, &[&["convert", source, "--as", "llama"], more].concat());
        assert!(sentence.contains(part), "{source}: {sentence}");
        assert_eq!(fs::read_dir(dir).unwrap().count(), before, "{source}");
    };
    for (source, part) in [
        (model("gpt2-tiny"), "the positions of a GPT2LMHeadModel are learned"),
        (
            model("gptj-tiny"),
            "feed-forward layers of a GPTJForCausalLM read the same",
        ),
        (model("bert-tiny-mlm"), "a BertForMaskedLM reads texts as a whole"),
        (model("qwen2-tiny"), "a Qwen2ForCausalLM, which has no LayerNorm"),
        (
            "parallel".to_string(),
            "`use_parallel_residual` of this GPTNeoXForCausalLM is true",
        ),
        (
            "part".to_string(),
            "`rotary_pct` of this GPTNeoXForCausalLM says that 2 of the 4",
        ),
        (
            "alibi".to_string(),
            "transformers does not know the field `lessen_position`",
        ),
        ("shifted".to_string(), "`gpt_neox.final_layer_norm.bias` is not zero"),
    ] {
        let remedy = if part.contains("no LayerNorm") {
            "nothing to convert"
        } else {
            "leave out --as llama"
        };
        for more in [&["-o", "new"][..], &["--dry-run"]] {
            refused(&source, more, part);
            refused(&source, more, remedy);
        }
    }
    refused(
        "good",
        &["-o", "new", "--norm", "crmsnorm"],
        "--norm crmsnorm does not go with --as llama",
    );
    refused("good", &["-o", "part"], "is not empty");
    let file = fixture("onnx-sessions/tests/data/vit-script-12.onnx");
    refused("none", &["-o", "new"], "none");
    refused(&file, &["-o", "new"], "--as llama is for Hugging Face folders");
    let printed = succeed(dir, &["convert", "good", "--as", "llama", "--dry-run"]);
    assert!(
        printed.contains("7 LayerNorms, 7 of them are computed as RMSNorm"),
        "{printed}"
    );
    assert_eq!(fs::read_dir(dir).unwrap().count(), before);
}
