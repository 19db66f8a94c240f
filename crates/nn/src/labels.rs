//! The classes of a classifier: their names in `config.json` and their rows or columns in the classification head.

use serde_json::{Map, Value};

use crate::config::Fields;
use crate::weights::Weights;
use lessen_base::Result;

/// The parameters with one row per class; each classifier has two of them.
const ROWS: [&str; 4] = [
    "classifier.weight",
    "classifier.bias",
    "classifier.out_proj.weight",
    "classifier.out_proj.bias",
];

/// The parameters with one column per class, of the bag of tokens and pairs.
const COLUMNS: [&str; 4] = [
    "ngrams.words.weight",
    "ngrams.pairs.weight",
    "ngrams.shared.weight",
    "ngrams.share.weight",
];

/// Returns `LABEL_0`, `LABEL_1` and so on, transformers' names of unnamed classes.
pub fn numbered_labels(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("LABEL_{i}")).collect()
}

impl Fields {
    /// Returns the names of the classes: `id2label`, or else `num_labels` (default 2) numbered labels.
    pub(crate) fn labels(&self) -> Result<Vec<String>> {
        let Some(value) = self.get("id2label") else {
            return Ok(numbered_labels(self.size_or("num_labels", 2)?));
        };
        let named = value.as_object().filter(|map| !map.is_empty()).and_then(|map| {
            (0..map.len())
                .map(|i| map.get(&i.to_string())?.as_str().map(str::to_string))
                .collect()
        });
        let named: Vec<String> = named.ok_or_else(|| {
            self.error(
                "id2label",
                "must name the classes by their numbers \"0\", \"1\" and so on",
            )
        })?;
        for (number, name) in named.iter().enumerate() {
            if let Some(first) = named[..number].iter().position(|other| other == name) {
                let what = format!("calls both class {first} and class {number} {name}; give each class its own name");
                return Err(self.error("id2label", what));
            }
        }
        Ok(named)
    }

    /// Whether each text can have several labels, or none: `problem_type` is `multi_label_classification`, or is
    /// missing beside a single class with a name of its own, whose logit transformers and text-embeddings-inference
    /// take for that of a probability.
    pub(crate) fn is_multi_label(&self) -> Result<bool> {
        match self.word("problem_type")? {
            Some(kind) => Ok(kind == MULTI_LABEL),
            None => {
                let labels = self.labels()?;
                Ok(labels.len() == 1 && labels != numbered_labels(1))
            }
        }
    }

    /// Refuses a `problem_type` that is not implemented for this number of classes: regression to several numbers,
    /// single-label classification with one class.
    pub(crate) fn check_problem(&self, classes: usize) -> Result<()> {
        let Some(kind) = self.word("problem_type")? else {
            return Ok(());
        };
        if kind == problem_type(classes, kind == MULTI_LABEL) {
            return Ok(());
        }
        let what = match kind {
            REGRESSION | SINGLE_LABEL => {
                format!("is `{kind}`, which does not go with the number of classes, {classes}; correct one of the two")
            }
            _ => format!("is `{kind}`, which Lessen does not have"),
        };
        Err(self.error("problem_type", what))
    }
}

const REGRESSION: &str = "regression";
const SINGLE_LABEL: &str = "single_label_classification";
const MULTI_LABEL: &str = "multi_label_classification";

/// The `problem_type` in transformers of a classifier with this number of classes.
fn problem_type(classes: usize, is_multi_label: bool) -> &'static str {
    match classes {
        _ if is_multi_label => MULTI_LABEL,
        1 => REGRESSION,
        _ => SINGLE_LABEL,
    }
}

/// Writes `id2label`, `label2id` and, for several labels of a text and for a regression, `problem_type`: transformers'
/// pipelines take a single logit for that of a probability otherwise. Another `problem_type` is removed if it
/// contradicts the labels: transformers then derives it from the number of classes, as Lessen does.
pub(crate) fn put_labels(map: &mut Map<String, Value>, labels: &[String], is_multi_label: bool) {
    let id2label = labels
        .iter()
        .enumerate()
        .map(|(i, name)| (i.to_string(), Value::from(name.as_str())));
    let label2id = labels
        .iter()
        .enumerate()
        .map(|(i, name)| (name.clone(), Value::from(i)));
    map.insert("id2label".into(), Value::Object(id2label.collect()));
    map.insert("label2id".into(), Value::Object(label2id.collect()));
    map.remove("num_labels");
    let kind = problem_type(labels.len(), is_multi_label);
    let before = map.get("problem_type").filter(|kind| !kind.is_null());
    if kind != SINGLE_LABEL {
        map.insert("problem_type".into(), kind.into());
    } else if before.is_some_and(|before| *before != kind) {
        map.remove("problem_type");
    }
}

/// Returns the index of each of `names` among `others` if `others` is a permutation of `names` up to case, and `None`
/// otherwise.
pub fn same_classes(names: &[String], others: &[String]) -> Option<Vec<usize>> {
    let plain = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>();
    let (names, others) = (plain(names), plain(others));
    let places: Vec<usize> = names
        .iter()
        .map(|name| others.iter().position(|other| other == name))
        .collect::<Option<_>>()?;
    let mut sorted = places.clone();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..others.len()).then_some(places)
}

/// Whether a parameter has a row for each class.
pub(crate) fn has_class_rows(name: &str) -> bool {
    ROWS.contains(&name)
}

/// Whether a parameter has a row or a column for each class.
pub fn is_by_class(name: &str) -> bool {
    has_class_rows(name) || COLUMNS.contains(&name)
}

/// Permutes the rows and columns of the classification head: the new row or column `i` is the old one at `places[i]`. A
/// head with another number of them and a model without a head stay unchanged.
pub fn reorder_classes(weights: &mut Weights, places: &[usize]) {
    for name in ROWS {
        let Some(weight) = weights.get_mut(name) else {
            continue;
        };
        if weight.shape.first() == Some(&places.len()) {
            let width = weight.data.len() / places.len().max(1);
            let rows = places.iter().map(|&place| &weight.data[place * width..][..width]);
            weight.data = rows.collect::<Vec<_>>().concat();
        }
    }
    for name in COLUMNS {
        let Some(weight) = weights.get_mut(name) else {
            continue;
        };
        if weight.shape.last() == Some(&places.len()) {
            let rows = weight.data.chunks_exact(places.len().max(1));
            weight.data = rows.flat_map(|row| places.iter().map(|&place| row[place])).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Weight;
    use serde_json::json;

    fn names(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn the_same_classes_are_known_in_any_order() {
        let places = same_classes(&names("a b c"), &names("C A B"));
        assert_eq!(places, Some(vec![1, 2, 0]));
        for others in ["a b", "a b d", "a b c d", "a a b", "b b c"] {
            assert_eq!(same_classes(&names("a b c"), &names(others)), None, "{others}");
            assert_eq!(same_classes(&names(others), &names("a b c")), None, "{others}");
        }
        assert_eq!(same_classes(&names("a a b"), &names("a a b")), None);
    }

    #[test]
    fn rows_and_columns_follow_their_classes() {
        let weight = |shape: &[usize], data: &[f32]| Weight {
            shape: shape.to_vec(),
            data: data.to_vec(),
        };
        let mut weights = Weights::from([
            (
                "classifier.weight".to_string(),
                weight(&[3, 2], &[0., 1., 10., 11., 20., 21.]),
            ),
            ("classifier.bias".to_string(), weight(&[3], &[0., 1., 2.])),
            (
                "ngrams.words.weight".to_string(),
                weight(&[2, 3], &[0., 1., 2., 10., 11., 12.]),
            ),
            ("norm.bias".to_string(), weight(&[3], &[0., 1., 2.])),
        ]);
        reorder_classes(&mut weights, &[1, 2, 0]);
        assert_eq!(weights["classifier.weight"].data, [10., 11., 20., 21., 0., 1.]);
        assert_eq!(weights["classifier.bias"].data, [1., 2., 0.]);
        assert_eq!(weights["ngrams.words.weight"].data, [1., 2., 0., 11., 12., 10.]);
        assert_eq!(weights["norm.bias"].data, [0., 1., 2.]);
        let before = weights.clone();
        reorder_classes(&mut weights, &[1, 0]);
        assert_eq!(weights, before, "these rows are of other classes");
    }

    #[test]
    fn one_class_with_a_name_of_its_own_has_a_probability() {
        for (config, is_of_labels) in [
            (json!({ "id2label": { "0": "toxic" } }), true),
            (json!({ "id2label": { "0": "LABEL_0" } }), false),
            (json!({ "num_labels": 1 }), false),
            (
                json!({ "id2label": { "0": "stars" }, "problem_type": "regression" }),
                false,
            ),
            (
                json!({ "id2label": { "0": "LABEL_0" }, "problem_type": "multi_label_classification" }),
                true,
            ),
            (json!({ "id2label": { "0": "no", "1": "yes" } }), false),
        ] {
            let fields = Fields::of(config.as_object().unwrap().clone(), "config.json");
            assert_eq!(fields.is_multi_label(), Ok(is_of_labels), "{config}");
        }
    }

    #[test]
    fn a_problem_type_is_kept_only_while_it_fits() {
        for (kind, classes, kept) in [
            (json!("regression"), 1, true),
            (json!("regression"), 2, false),
            (json!("single_label_classification"), 2, true),
            (json!("multi_label_classification"), 3, false),
            (json!(null), 2, true),
        ] {
            let mut map = Map::from_iter([("problem_type".to_string(), kind.clone())]);
            put_labels(&mut map, &numbered_labels(classes), false);
            assert_eq!(map.get("problem_type"), kept.then_some(&kind), "{kind} with {classes}");
        }
        for (classes, is_multi_label, kind) in [
            (3, true, "multi_label_classification"),
            (1, true, "multi_label_classification"),
            (1, false, "regression"),
        ] {
            let mut map = Map::from_iter([("problem_type".to_string(), json!("single_label_classification"))]);
            put_labels(&mut map, &numbered_labels(classes), is_multi_label);
            assert_eq!(map["problem_type"], kind);
        }
    }
}
