//! Jobs that are hardly meant as they are: they say so before they begin.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Settings of a tiny model, for a run of one step.
const TINY: [&str; 12] = [
    "--set",
    "model.layers=1",
    "--set",
    "model.width=16",
    "--set",
    "model.heads=2",
    "--set",
    "model.ffn=32",
    "--set",
    "data.max_length=12",
    "--steps",
    "1",
];

/// What a training says on stderr, without progress.
fn said(dir: &Path, args: &[&str]) -> String {
    let output = lessen(dir, &[&["train"], args, &["--quiet"]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stderr(&output)
}

/// The learning rates of all steps of a run.
fn rates(run: &Path) -> Vec<f64> {
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line["lr"].as_f64()).collect()
}

#[test]
fn a_recipe_for_a_trained_model_says_that_it_trains_from_scratch() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let model = checkpoint(dir, "bert");
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let warning = |recipe: &str| {
        format!(
            "warning: the recipe {recipe} is meant to start from a trained model, and none is named, so all weights begin \
             at random; name a Hugging Face folder with --init\n"
        )
    };
    for (recipe, data, warns) in [
        ("bert-classifier", "titles", true),
        ("gpt2-lm", "text.txt", true),
        ("llama-lm", "text.txt", true),
        ("thucnews", "titles", false),
        ("shakespeare", "text.txt", false),
        ("bert-mlm", "text.txt", false),
    ] {
        let heads = ["--set", "model.kv_heads=1"];
        let heads = if recipe == "llama-lm" { &heads[..] } else { &[] };
        let said = said(
            dir,
            &[&[recipe, "--data", data, "--out", recipe], &TINY[..], heads].concat(),
        );
        assert_eq!(said.contains(&warning(recipe)), warns, "{recipe}: {said}");
        assert_eq!(said.contains("--init"), warns, "{recipe}: {said}");
    }
    // Neither with a model nor where the run goes on.
    let more = [
        "--init",
        text(&model),
        "--steps",
        "1",
        "--set",
        "data.max_length=12",
        "--out",
        "from",
    ];
    let started = said(dir, &[&["bert-classifier", "--data", "titles"], &more[..]].concat());
    assert!(!started.contains("at random"), "{started}");
    let resumed = said(dir, &["--resume", "--out", "bert-classifier", "--steps", "2"]);
    assert!(!resumed.contains("at random"), "{resumed}");
}

#[test]
fn a_warm_up_beyond_half_of_the_steps_is_a_tenth_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let trained = |out: &str, warmup: &str| {
        let setting = format!("train.warmup={warmup}");
        let more = ["--steps", "12", "--set", &setting, "--out", out];
        let said = said(dir, &tiny_adder(&more)[1..]);
        (said, rates(&dir.join(out)))
    };
    let (said, shortened) = trained("a", "7");
    assert!(
        said.contains(
            "note: train.warmup = 7 (--set train.warmup=7) is more than half of the 12 steps, so the learning rate rises \
             in 2 of them only; "
        ),
        "{said}"
    );
    assert_eq!(shortened.len(), 12);
    for (out, warmup) in [("b", "2"), ("c", "6"), ("d", "58%"), ("e", "1.0"), ("f", "0")] {
        let (said, own) = trained(out, warmup);
        assert!(!said.contains("train.warmup"), "{warmup}: {said}");
        assert_eq!(own == shortened, warmup == "2", "{warmup}: {own:?}, {shortened:?}");
    }
    let (said, far) = trained("g", "1000000");
    assert!(said.contains("rises in 2 of them only") && far == shortened, "{said}");
}

#[test]
fn a_text_beyond_the_positions_warns() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    for (kind, end) in [
        (
            "gpt2",
            "positions of the model: a text that is longer is continued from its last half alone",
        ),
        (
            "llama",
            "positions that the model was trained for: what follows them may be of no use",
        ),
    ] {
        let kind_setting = format!("model.kind={kind}");
        let more = ["--set", &kind_setting, "--out", kind];
        let args = [&["shakespeare", "--data", "text.txt"], &TINY[..], &more].concat();
        said(dir, &args);
        let config: Value =
            serde_json::from_slice(&fs::read(dir.join(kind).join("model/config.json")).unwrap()).unwrap();
        let positions = ["n_positions", "max_position_embeddings"]
            .iter()
            .find_map(|key| config[key].as_u64());
        let positions = positions.unwrap() as usize;
        let generated = |tokens: usize| {
            let tokens = tokens.to_string();
            let output = lessen(dir, &["generate", kind, "--prompt", "ab", "--tokens", &tokens]);
            assert!(output.status.success(), "{}", stderr(&output));
            stderr(&output)
        };
        let fits = generated(positions - 2);
        assert!(!fits.contains("positions"), "{kind}: {fits}");
        let beyond = generated(positions - 1);
        assert!(
            beyond.contains(&format!(
                "warning: up to {} tokens are more than the {positions} {end}; ",
                positions + 1
            )),
            "{kind}: {beyond}"
        );
    }
}
