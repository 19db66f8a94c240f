//! Choices for texts with classes, labels or numbers.

use super::choice::{Candidate, DataChoice, Plan};
use super::draft::{Recipe, batch_for};
use super::facts::{Answer, ExampleKind, Facts};
use super::request::{ChoiceRequest, LINEAR, NETWORK};
use lessen_base::Result;
use lessen_nn::Fields;
use lessen_task::recipe::value::SettingValue;
use std::path::Path;

/// Tokens of a learned vocabulary.
const VOCABULARY: usize = 8000;

/// Rows that are few enough for many epochs.
const FEW: usize = 20_000;

/// The share of the rarest class below which classes are weighted.
const RARE: f64 = 0.02;

/// Adds choices and candidates.
pub(super) fn plan(
    plan: &mut Plan,
    recipe: &mut Recipe,
    facts: &Facts,
    answer: Answer,
    request: &ChoiceRequest<'_>,
) -> Result<()> {
    recipe.text("data.format", "labelled");
    let (problem, best) = match answer {
        Answer::Class => ("single_label_classification", "accuracy"),
        Answer::Labels => ("multi_label_classification", "micro_f1"),
        Answer::Number => ("regression", "mse"),
    };
    recipe.text("data.problem", problem).text("train.best", best);
    let mut own = recipe.clone();
    plan.choices.push(tokenizer(&mut own, facts));
    plan.choices.push(length(&mut own, facts, request.minutes));
    plan.candidates.push(linear(&own, facts));
    let candidate = match &request.init {
        Some(init) => checkpoint(recipe, facts, init, request.minutes, &mut plan.choices)?,
        None => encoder(&own, facts, request.minutes),
    };
    plan.candidates.push(candidate);
    let models: Vec<&str> = plan.candidates.iter().map(|own| own.model.as_str()).collect();
    plan.choices.push(DataChoice::new(
        "models",
        models.join(" and "),
        "the one that is better on held-out rows is the result",
        "model.kind, --init",
    ));
    let batch = batch_for(facts.rows);
    let how = match answer {
        Answer::Number => "SGD for the linear model and AdamW for the other",
        _ => "AdamW",
    };
    plan.choices.push(DataChoice::new(
        "training",
        format!("batches of {batch}, {how}, the best epoch is kept"),
        format!(
            "{} rows; it ends where {best} is no better for 3 evaluations",
            facts.rows
        ),
        "train.batch, train.lr, train.epochs, train.patience",
    ));
    Ok(())
}

/// Chooses how texts become tokens.
fn tokenizer(recipe: &mut Recipe, facts: &Facts) -> DataChoice {
    let key = "data.tokenizer, data.vocab";
    if facts.has_spaces {
        let size = if facts.rows > 100_000 {
            2 * VOCABULARY
        } else {
            VOCABULARY
        };
        recipe.text("data.tokenizer", "wordpiece").set("data.vocab", size);
        return DataChoice::new(
            "tokenizer",
            format!("WordPiece of at most {size} tokens, learned from the texts"),
            "words are separated by spaces",
            key,
        );
    }
    recipe.text("data.tokenizer", "characters");
    if facts.rows >= 1000 {
        recipe.set("data.min_count", 2);
    }
    DataChoice::new("tokenizer", "characters", "words are not separated by spaces", key)
}

/// Chooses after how many tokens texts are cut.
fn length(recipe: &mut Recipe, facts: &Facts, minutes: f64) -> DataChoice {
    let most = if minutes < 10.0 { 128 } else { 512 };
    let (wanted, of) = match facts.has_spaces {
        true => (facts.words + facts.words / 2 + 2, format!("{} words", facts.words)),
        false => (facts.characters + 2, format!("{} characters", facts.characters)),
    };
    let length = wanted.next_multiple_of(8).clamp(16, most);
    recipe.set("data.max_length", length);
    let mut why = format!("99 of 100 texts have at most {of}");
    if wanted > most {
        why.push_str("; longer ones are cut, for the time that there is");
    }
    DataChoice::new("length", format!("{length} tokens"), why, "data.max_length")
}

/// The keys of training that both models have.
fn training(recipe: &mut Recipe, facts: &Facts, lr: f64) {
    recipe.set("train.batch", batch_for(facts.rows));
    recipe.set("train.lr", format!("{lr:?}"));
    recipe.text("train.schedule", "linear").set("train.warmup", 0.05);
    recipe.set("train.patience", 3).set("train.checkpoint_every", 0);
    recipe.set("train.weight_decay", 0.01);
}

/// The linear model over words or characters and their pairs.
fn linear(own: &Recipe, facts: &Facts) -> Candidate {
    let mut recipe = own.clone();
    recipe.text("model.kind", "linear");
    if facts.has_pairs {
        recipe.set("model.shared", true);
    }
    if facts.kind == ExampleKind::Texts(Answer::Number) {
        descent(&mut recipe, facts);
    } else {
        training(&mut recipe, facts, 0.02);
    }
    recipe.set("train.patience", 5);
    Candidate {
        name: LINEAR.to_string(),
        model: match facts.has_pairs {
            true => "a linear model over tokens, their pairs and what both texts share".to_string(),
            false => "a linear model over tokens and their pairs".to_string(),
        },
        recipes: vec![recipe.to_toml()],
        epochs: if facts.rows < FEW { 30 } else { 10 },
        least_epochs: 1,
    }
}

/// Gradient descent with momentum and the decay of a ridge regression whose penalty is 2. It gives rare tokens little
/// weight, and takes numbers of any size, where AdamW moves every weight by the rate.
fn descent(recipe: &mut Recipe, facts: &Facts) {
    let tokens = match facts.has_spaces {
        true => facts.words,
        false => facts.characters,
    };
    training(recipe, facts, if tokens > 100 { 0.02 } else { 0.05 });
    recipe.text("optimizer.kind", "sgd");
    let decay = (4.0 / facts.rows.max(1) as f64).min(0.01);
    recipe.set("train.weight_decay", format!("{decay:?}"));
}

/// A small encoder with the linear model beside it, the largest first.
fn encoder(own: &Recipe, facts: &Facts, minutes: f64) -> Candidate {
    let sizes = [(4, 256, 4), (2, 128, 4), (1, 64, 2)];
    let first = usize::from(minutes < 20.0);
    let recipes = sizes[first..].iter().map(|(layers, width, heads)| {
        let mut recipe = own.clone();
        recipe.text("model.kind", "encoder");
        recipe.set("model.layers", layers).set("model.width", width);
        recipe.set("model.heads", heads).set("model.ffn", 4 * width);
        recipe.set("model.dropout", if facts.rows < FEW { 0.3 } else { 0.1 });
        recipe.set("model.ngrams", buckets(facts.classes));
        if facts.has_pairs {
            recipe.set("model.shared", true);
        }
        if matches!(facts.rarest, share if share < RARE && facts.classes > 1) {
            recipe.text("train.class_weights", "balanced");
        }
        training(&mut recipe, facts, if *width > 128 { 5e-4 } else { 1e-3 });
        recipe.set("train.clip_norm", "1.0");
        recipe.to_toml()
    });
    Candidate {
        name: NETWORK.to_string(),
        model: "a small Transformer with the linear model inside".to_string(),
        recipes: recipes.collect(),
        epochs: 8,
        least_epochs: 3,
    }
}

/// Pairs of tokens that the network tells apart.
fn buckets(classes: usize) -> usize {
    (4_000_000 / classes.max(1)).clamp(1024, 1 << 16).next_power_of_two()
}

/// The model of a folder to start from.
fn checkpoint(
    recipe: &Recipe,
    facts: &Facts,
    init: &Path,
    minutes: f64,
    choices: &mut Vec<DataChoice>,
) -> Result<Candidate> {
    let mut recipe = recipe.clone();
    length(&mut recipe, facts, minutes);
    let width = width_of(init)?;
    let lr = match width {
        0..256 => 2e-4,
        256..512 => 1e-4,
        512..1024 => 5e-5,
        _ => 2e-5,
    };
    recipe
        .text("model.kind", "bert")
        .set("model.init", SettingValue::of_path(init)?);
    training(&mut recipe, facts, lr);
    recipe
        .set("train.batch", 16)
        .set("train.warmup", 0.1)
        .set("train.clip_norm", "1.0");
    recipe.set("data.group", true);
    choices.push(DataChoice::new(
        "rate",
        format!("{lr:?}, 3 epochs in batches of 16"),
        format!("{} has hidden states of width {width}", init.display()),
        "train.lr, train.epochs",
    ));
    Ok(Candidate {
        name: NETWORK.to_string(),
        model: format!("the model of {}", init.display()),
        recipes: vec![recipe.to_toml()],
        epochs: 3,
        least_epochs: 1,
    })
}

/// The names of the width of hidden states in `config.json`, by family.
const WIDTHS: [&str; 5] = ["hidden_size", "dim", "d_model", "n_embd", "width"];

/// The width of a model whose folder does not say it.
const USUAL_WIDTH: usize = 768;

/// The width of the hidden states of a folder's model, with or without a head.
///
/// # Errors
/// A folder without a sound `config.json`.
fn width_of(init: &Path) -> Result<usize> {
    let path = init.join("config.json");
    if !path.is_file() {
        return Ok(USUAL_WIDTH);
    }
    let fields = Fields::read(&path)?;
    let named = WIDTHS.iter().find_map(|name| fields.get(name)?.as_u64());
    Ok(named
        .and_then(|width| usize::try_from(width).ok())
        .unwrap_or(USUAL_WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_data::look::{Look, LookOptions};
    use std::fs;

    #[test]
    fn pairs_are_learned_by_what_they_share_and_numbers_by_gradient_descent() {
        let dir = tempfile::tempdir().unwrap();
        let recipes = |head: &str, row: fn(usize) -> String| {
            let data = dir.path().join("data.csv");
            let rows: String = (0..60).map(row).collect();
            fs::write(&data, format!("{head}\n{rows}")).unwrap();
            let facts = Facts::of(&Look::of(&data, &LookOptions::default()).unwrap()).unwrap();
            let own = Recipe::default();
            [linear(&own, &facts), encoder(&own, &facts, 3.0)].map(|candidate| candidate.recipes[0].clone())
        };
        let says = |recipes: &[String; 2], line: &str| [0, 1].map(|i| recipes[i].contains(line));
        let shared = "model.shared = true\n";
        let (descent, decay) = ("optimizer.kind = \"sgd\"\n", "train.weight_decay = 0.01\n");
        let pairs = recipes("text,text_pair,score", |i| {
            format!("the {i} of it,and {} of that,{}.5\n", i * 7 % 60, i * 11 % 23)
        });
        let text = recipes("text,score", |i| format!("the {i} of it and that,{}.5\n", i * 11 % 23));
        let classes = recipes("text,text_pair,label", |i| {
            format!("the {i} of it,and {} of that,{}\n", i * 7 % 60, ["no", "yes"][i % 2])
        });
        for (found, of_pairs, of_numbers) in [(&pairs, true, true), (&text, false, true), (&classes, true, false)] {
            assert_eq!(says(found, shared), [of_pairs; 2], "{found:?}");
            assert_eq!(says(found, descent), [of_numbers, false], "{found:?}");
            assert_eq!(says(found, decay), [true; 2], "{found:?}");
        }
    }

    #[test]
    fn the_width_of_a_checkpoint_needs_no_head() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(width_of(dir.path()).unwrap(), USUAL_WIDTH);
        let of = |text: &str| {
            fs::write(dir.path().join("config.json"), text).unwrap();
            width_of(dir.path())
        };
        assert_eq!(
            of(r#"{"architectures": ["BertModel"], "hidden_size": 384}"#).unwrap(),
            384
        );
        assert_eq!(of(r#"{"model_type": "distilbert", "dim": 512}"#).unwrap(), 512);
        assert!(of("[]").is_err());
    }
}
