//! Tensors of a checkpoint that no parameter is read from: heads of other tasks, which are named, and those without
//! which the model answers otherwise, which are refused.

use std::collections::BTreeSet;

use super::adapter_files::{ADAPTERS, has_adapters_beside};
use super::folder::ModelFolder;
use super::found::Found;
use super::names::{MERGE, candidates, has_part, is_of_adapter, tied};
use crate::model::Model;
use crate::params::ParamSpec;
use lessen_base::{Error, Result};

/// A head that shares the first part of its name with another one: BERT's prediction of the next sentence.
const NEXT_SENTENCE: &str = "cls.seq_relationship.";

/// Parts of names of what only other uses of a model read: the layer over the first token's state, and the token in
/// place of a masked patch.
const OF_OTHER_USES: [&str; 2] = ["pooler", "mask_token"];

/// The tensors that neither the model of the folder nor one that has `params` reads, by their names: heads of other
/// tasks. Those of the model without its heads are refused; a folder to start from may have more layers than its
/// `config.json` counts.
///
/// # Errors
/// Adapters that are not merged, in the weights or beside them, layers beyond those that are counted, and other tensors
/// of modules that are read.
pub(super) fn check_unread(found: &Found, params: &[ParamSpec], folder: ModelFolder<'_>) -> Result<Vec<String>> {
    if has_adapters_beside(folder.path()) {
        return Err(Error::user(format!(
            "{} has a whole model and {ADAPTERS}, whose adapters transformers adds to its weights, and Lessen does not; \
             {MERGE}, or remove that file where the weights have them already",
            folder.path().display()
        )));
    }
    let described = Model::from_dir(folder).or_else(|_| Model::from_dir_for_states(folder));
    let own = described.map(|model| model.parameters()).unwrap_or_default();
    let names = own.iter().flat_map(|param| candidates(&param.name));
    let read: BTreeSet<String> = names.filter(|name| found.has(name)).chain(found.read()).collect();
    let is_param = |name: &str| own.iter().chain(params).any(|param| param.name == name);
    let copies = tied().into_iter();
    let copies = copies.filter(|tied| is_param(&tied.source) && is_param(tied.user));
    let heads = copies.map(|tied| first_part(tied.copy));
    let modules: BTreeSet<&str> = read.iter().map(|name| first_part(name)).chain(heads).collect();
    let (of_model, others): (Vec<String>, Vec<String>) = found
        .left_over(read.iter())
        .into_iter()
        .filter(|name| is_of_adapter(name) || !has_part(name, &OF_OTHER_USES))
        .partition(|name| {
            is_of_adapter(name) || (modules.contains(first_part(name)) && !name.starts_with(NEXT_SENTENCE))
        });
    let wrong = |name: &String, what: String| {
        let (path, count) = (found.path().display(), of_model.len());
        let tensors = if count == 1 {
            "tensor".to_string()
        } else {
            format!("{count} tensors, such as")
        };
        Err(Error::user(format!(
            "{path}: nothing reads the {tensors} `{name}`, {what}"
        )))
    };
    if let Some(name) = of_model.iter().find(|name| is_of_adapter(name)) {
        return wrong(
            name,
            format!("of adapters that are not merged into the weights; {MERGE}"),
        );
    }
    let mut layers = of_model.iter().map(|name| (name, layer_beyond(name, &read)));
    if let Some((name, _)) = layers.clone().find(|(_, layer)| layer.is_none()) {
        let what = "without which the model answers otherwise; name in config.json the class and the settings that the \
                    weights were made with, or remove what does not belong to them";
        return wrong(name, what.to_string());
    }
    match layers.next() {
        Some((name, Some(layer))) if !folder.starts() => {
            let what = format!(
                "since config.json counts too few layers for `{layer}`; correct their number there, or remove the layers \
                 from the weights"
            );
            wrong(name, what)
        }
        _ => Ok(others),
    }
}

fn first_part(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// The numbered layer that a tensor belongs to where no tensor of this layer is read, but some of layers beside it.
fn layer_beyond<'a>(name: &'a str, read: &BTreeSet<String>) -> Option<&'a str> {
    let numbered = |(at, _): &(usize, &str)| {
        let (layers, rest) = name.split_at(at + 1);
        let number = rest.split('.').next().unwrap_or_default();
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let layer = &name[..layers.len() + number.len()];
        let is_beside = |read: &String| {
            read.strip_prefix(layers)
                .is_some_and(|rest| is_number(first_part(rest)))
        };
        let is_read = |read: &String| read.strip_prefix(layer).is_some_and(|rest| rest.starts_with('.'));
        (is_number(number) && read.iter().any(is_beside) && !read.iter().any(is_read)).then_some(layer)
    };
    name.match_indices('.').find_map(|found| numbered(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_beyond_those_that_are_read_are_known_by_their_numbers() {
        let read = ["h.0.attn.weight", "h.1.attn.weight", "stages.0.blocks.0.weight"];
        let read: BTreeSet<String> = read.map(String::from).into();
        let beyond = |name| layer_beyond(name, &read);
        assert_eq!(beyond("h.2.attn.weight"), Some("h.2"));
        assert_eq!(beyond("h.11.mlp.0.weight"), Some("h.11"));
        assert_eq!(beyond("stages.0.blocks.1.weight"), Some("stages.0.blocks.1"));
        assert_eq!(beyond("h.1.attn.bias"), None);
        assert_eq!(beyond("other.1.attn.bias"), None);
    }
}
