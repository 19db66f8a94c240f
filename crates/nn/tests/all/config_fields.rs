//! Every field of `config.json` of every family: the logits of transformers, or an error; never others without a word.

use crate::support::{Folder, difference, fixture, floats, logits, recorded, write};
use lessen_graph::Array;
use lessen_nn::{FieldEffect, Model, Result, checkpoint, config_fields};
use safetensors::SafeTensors;
use serde_json::Value;
use std::fs;

/// The tokens of the recorded logits.
const TOKENS: [i32; 4] = [5, 7, 9, 11];

/// The relative difference of logits: transformers computes in `f32`.
const TOLERANCE: f64 = 1e-4;

fn read(folder: &Folder) -> Result<Array> {
    let model = Model::from_dir(&folder.0)?;
    let params = model.parameters();
    let loaded = checkpoint::load(&folder.0, &params, &|_| false)?;
    if let Some(extra) = loaded.extra.first() {
        return Err(lessen_nn::Error::user(format!("the tensor `{extra}` is left over")));
    }
    Ok(logits(&model, &loaded.weights, &TOKENS))
}

#[test]
fn every_field_of_a_config_has_the_effect_of_transformers_or_is_refused() {
    let record: Value = serde_json::from_slice(&fs::read(fixture("fields.json")).unwrap()).unwrap();
    let bytes = fs::read(fixture("fields.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let outcomes = recorded(&file, "outcome/");
    let (folder, mut last) = (Folder::new(), String::new());
    let (mut wrong, mut same) = (Vec::new(), 0);
    let cases = record["cases"].as_array().unwrap();
    for case in cases {
        let (family, field) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        if last != family {
            write(&folder, "model.safetensors", &recorded(&file, &format!("{family}/")));
            last = family.to_string();
        }
        let mut config = record["configs"][family].clone();
        config[field] = case[2].clone();
        fs::write(folder.file("config.json"), config.to_string()).unwrap();
        let expected = case[3].as_u64().map(|number| &outcomes[&number.to_string()]);
        match (read(&folder), expected) {
            (Err(error), expected) => {
                let sentence = error.to_string();
                if sentence.contains('\n') {
                    wrong.push(format!("{case}: {sentence}"));
                }
                // The unchanged model is read.
                if field == "use_cache" && expected.is_some() {
                    wrong.push(format!("{case}: {sentence}"));
                }
            }
            (Ok(_), None) => {
                // transformers refuses types of fields that change nothing, and texts beyond the positions of a GPT-J.
                let fields = config_fields(Model::from_dir(&folder.0).unwrap().architecture()).unwrap();
                let changes_nothing = fields.contains(&(field, FieldEffect::WithoutEffect));
                if !changes_nothing && (family, field) != ("gptj", "n_positions") {
                    wrong.push(format!("{case} is read, and transformers refuses it"));
                }
            }
            (Ok(found), Some((_, shape, bytes))) => match difference(&found, &floats(shape, bytes)) {
                difference if difference > TOLERANCE => wrong.push(format!("{case} differs by {difference}")),
                _ => same += 1,
            },
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len());
    assert!(same > cases.len() / 4, "{same} of {} are read", cases.len());
}
