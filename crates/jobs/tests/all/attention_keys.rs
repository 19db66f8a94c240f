//! Attention, positions, activation and loss by keys: whole runs from scratch, resumed, asked, and started from a
//! checkpoint with others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lessen_cpu::CpuBackend;
use lessen_jobs::training::{Request, train};
use lessen_nn::models::bert::{Bert, BertConfig, Head};
use lessen_nn::{Model, checkpoint};
use lessen_saved::saved_run::{AdapterOptions, Prediction, SavedRun};
use lessen_task::CheckedTask;
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::recipe;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use serde_json::{Map, Value, json};

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// The settings of a small adder with these flags, or of one that starts from a checkpoint among them.
fn adder(flags: &[&str]) -> Settings {
    let mut settings = recipe::load("adder").unwrap();
    let sizes = ["model.layers=2", "model.width=16", "model.heads=2", "model.ffn=16"];
    let own: &[&str] = if flags.iter().any(|flag| flag.starts_with("model.init")) {
        &[]
    } else {
        &sizes
    };
    for flag in ["train.batch=8", "train.steps=2"].iter().chain(own).chain(flags) {
        settings.set_flag(flag).unwrap();
    }
    settings
}

fn losses(settings: Settings, out: &Path) -> Vec<f64> {
    let report = train(&Request::new(settings, out.to_path_buf()), &cpu())
        .unwrap()
        .to_json();
    let losses = report["loss_history"].as_array().unwrap().iter();
    losses.map(|loss| loss.as_f64().unwrap()).collect()
}

fn config_json(run: &Path) -> Map<String, Value> {
    let text = fs::read_to_string(run.join("model/config.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_kind_is_trained_resumed_and_asked() {
    for (i, (position, attention)) in [
        ("learned", "norm_softmax"),
        ("none", "softmax"),
        ("rope", "logit_norm"),
        ("alibi", "relu:keys"),
        ("fire", "norm_softmax:gamma=inf,learned"),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        let (position_flag, attention_flag) = (
            format!("model.position={position}"),
            format!("model.attention={attention}"),
        );
        let shared = format!("model.fire_shared={}", i % 2 == 1);
        let flags = [
            &*position_flag,
            &*attention_flag,
            &*shared,
            "model.activation=helu:0.05",
            "train.loss=norm_softmax",
        ];
        let found = losses(adder(&flags), &out);
        assert!(found.iter().all(|loss| loss.is_finite()), "{position}: {found:?}");
        let json = config_json(&out);
        assert_eq!(json["activation_function"], "relu");
        assert_eq!(
            (&json["lessen_activation"], &json["lessen_loss"]),
            (&json!("helu:0.05"), &json!("norm_softmax"))
        );
        let own = |field: &str| json.get(field).and_then(Value::as_str);
        assert_eq!(own("lessen_position").unwrap_or("learned"), position);
        assert_eq!(own("lessen_attention").unwrap_or("softmax"), attention);

        let longer = Request::resume(out.clone(), None, |settings| settings.set_flag("train.steps=3"));
        assert_eq!(train(&longer.unwrap(), &cpu()).unwrap().steps, 3, "{position}");
        let run = SavedRun::open(&out, WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
        assert!(
            matches!(run.predict("123+456").unwrap(), Prediction::Sum(_)),
            "{position}"
        );
        let other = Request::resume(out.clone(), None, |settings| settings.set_flag("model.position=none"));
        let refused = other.and_then(|request| train(&request, &cpu()).map(|_| ())).err();
        assert_eq!(refused.is_some(), position != "none");
    }
}

#[test]
fn a_checkpoint_goes_on_with_another_attention() {
    let dir = tempfile::tempdir().unwrap();
    let names = |run: &Path| -> BTreeSet<String> {
        let model = Model::from_dir(&run.join("model")).unwrap();
        model.parameters().into_iter().map(|param| param.name).collect()
    };
    let first = dir.path().join("first");
    losses(adder(&["train.lr=0"]), &first);
    let init = format!("model.init={}", first.join("model").display());
    let fire = dir.path().join("fire");
    losses(
        adder(&[
            &init,
            "model.position=fire",
            "model.attention=relu:keys",
            "model.fire_width=5",
            "model.fire_layers=2",
            "model.fire_length=64",
            "train.lr=0",
        ]),
        &fire,
    );
    let json = config_json(&fire);
    for (field, expected) in [
        ("lessen_position", json!("fire")),
        ("lessen_fire_width", json!(5)),
        ("lessen_fire_layers", json!(2)),
        ("lessen_fire_length", json!(64.0)),
    ] {
        assert_eq!(json[field], expected, "{field}");
    }
    assert_eq!(json["lessen_attention"], "relu:keys");
    let parts = ["b1", "b2", "b_middle", "c", "l", "w1", "w2", "w_middle"];
    let added = parts.map(|part| format!("transformer.fire.{part}"));
    let (before, after) = (names(&first), names(&fire));
    assert_eq!(after.difference(&before).cloned().collect::<Vec<_>>(), added);
    assert_eq!(
        before.difference(&after).collect::<Vec<_>>(),
        ["transformer.wpe.weight"]
    );
    // What stays is the checkpoint's, bit for bit.
    let weights = |run: &Path| {
        let dir = run.join("model");
        let parameters = Model::from_dir(&dir).unwrap().parameters();
        checkpoint::load(&dir, &parameters, &|_| false).unwrap().weights
    };
    let (before, after) = (weights(&first), weights(&fire));
    let stays = before.iter().filter(|(name, _)| after.contains_key(*name));
    assert!(stays.clone().count() > 10);
    stays.for_each(|(name, weight)| assert_eq!(after[name], *weight, "{name}"));
    // A run goes on from there with what the checkpoint has, and back to learned positions, which are new.
    let init = format!("model.init={}", fire.join("model").display());
    let same = dir.path().join("same");
    losses(adder(&[&init]), &same);
    let kept = config_json(&same);
    assert_eq!(
        (&kept["lessen_position"], &kept["lessen_fire_layers"]),
        (&json!("fire"), &json!(2))
    );
    let learned = dir.path().join("learned");
    losses(
        adder(&[&init, "model.position=learned", "model.attention=softmax"]),
        &learned,
    );
    assert_eq!(names(&learned), names(&first));
    assert_eq!(config_json(&learned).get("lessen_position"), None);
}

/// The message for a recipe that cannot be assembled.
fn refusal(settings: Settings) -> String {
    let task = Config::new(settings).and_then(|config| CheckedTask::assemble(config, None).map(|_| ()));
    task.unwrap_err().to_string()
}

fn classifier(kind: &str, flags: &[&str]) -> Settings {
    let text = format!("model.kind = \"{kind}\"\ndata.format = \"labelled\"\nrun.recipe = \"mine\"");
    let mut settings = Settings::parse(&text, "mine.toml").unwrap();
    for flag in flags {
        settings.set_flag(flag).unwrap();
    }
    settings
}

#[test]
fn a_bert_checkpoint_keeps_its_positions() {
    let dir = tempfile::tempdir().unwrap();
    let config = BertConfig {
        hidden_size: 8,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        intermediate_size: 8,
        vocab_size: 4096,
        ..BertConfig::default()
    };
    let model = Model::from(Bert {
        config,
        head: Head::SequenceClassification,
    });
    let json = Value::Object(model.config_json()).to_string();
    fs::write(dir.path().join("config.json"), json).unwrap();
    let (shown, init) = (dir.path().display(), format!("model.init={}", dir.path().display()));
    let assembled = |flags: &[&str]| {
        let settings = classifier("bert", &[&[&*init], flags].concat());
        CheckedTask::assemble(Config::new(settings).unwrap(), None).map(|task| task.model().attention())
    };
    assert_eq!(
        assembled(&["model.position=fire"]).unwrap_err().to_string(),
        format!(
            "model.position = \"fire\" (--set model.position=fire) cannot replace the positions (learned) of the \
             checkpoint {shown}, a post-LN BERT; leave it out, or train from scratch without model.init"
        )
    );
    assert_eq!(assembled(&["model.position=learned"]).unwrap(), Default::default());
    let attention = assembled(&["model.attention=norm_softmax"]).unwrap();
    assert_eq!(attention.weighting.to_string(), "norm_softmax");
    // From scratch it can have any.
    let scratch = Config::new(classifier("bert", &["model.position=fire"])).unwrap();
    assert!(CheckedTask::assemble(scratch, None).is_ok());
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let encoder = |flags: &[&str]| refusal(classifier("encoder", flags));
    assert_eq!(
        encoder(&["model.kv_heads=3"]),
        "model.kv_heads = 3 (--set model.kv_heads=3) does not divide model.heads = 4; choose a divisor"
    );
    assert_eq!(
        refusal(classifier("bert", &["model.kv_heads=2"])),
        "model.kv_heads = 2 (--set model.kv_heads=2) is not for model.kind = bert, whose checkpoints hold keys and values \
         of every head; leave it out, or choose llama or encoder"
    );
    assert_eq!(
        refusal(classifier("bert", &["model.reversible=true"])),
        "model.reversible = true (--set model.reversible=true) is not for model.kind = bert; leave it out, or choose encoder"
    );
    assert_eq!(
        encoder(&["model.position=rope", "model.width=12"]),
        "model.position = \"rope\" (--set model.position=rope): rope rotates pairs of elements, but heads have 3; choose \
         another number of heads or position"
    );
    assert!(encoder(&["model.fire_width=65537"]).ends_with("choose at most 65536"));
    assert!(encoder(&["model.fire_layers=3"]).ends_with("choose at most 2"));
    let mut settings = classifier("encoder", &[]);
    let mut flag = |text| settings.set_flag(text).unwrap_err().to_string();
    assert_eq!(
        flag("model.position=sinusoidal"),
        "--set model.position=sinusoidal: model.position must be one of learned, none, rope, alibi, fire, not \
         \"sinusoidal\""
    );
    let message = flag("model.attention=softmax2");
    assert!(
        message.starts_with("--set model.attention=softmax2: model.attention must be one of softmax, norm_softmax, ")
    );
    assert!(message.ends_with(", not \"softmax2\""), "{message}");
    let message = flag("train.loss=norm_softmax:learned");
    assert!(
        message.contains("train.loss must be one of softmax, norm_softmax and logit_norm; "),
        "{message}"
    );
    assert!(flag("model.attention=norm_softmax:gamma=0").contains("model.attention must be one of"));
}

#[test]
fn grouped_queries_are_a_setting_of_the_encoder() {
    let config = Config::new(classifier("encoder", &["model.kv_heads=2"])).unwrap();
    let model = CheckedTask::assemble(config, None).unwrap().model().clone();
    let shape = |name: &str| model.parameters().into_iter().find(|p| p.name == name).unwrap().shape;
    assert_eq!(shape("layers.0.attention.qkv.weight"), [128 + 2 * 64, 128]);
    assert_eq!(model.config_json()["kv_heads"], 2);
}

#[test]
fn the_encoder_can_be_reversible() {
    let config = Config::new(classifier("encoder", &["model.reversible=true"])).unwrap();
    let model = CheckedTask::assemble(config, None).unwrap().model().clone();
    assert_eq!(model.config_json()["reversible"], true);
}
