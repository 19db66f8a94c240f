//! Names of classes, whose order may differ between data and a trained classifier.

use crate::wording::some_of;
use lessen_base::{Error, Result};
use lessen_nn::{Model, numbered_labels, same_classes};

/// Whether the names of classes are their numbers, `0`, `1` and so on: the default for data without names.
pub fn are_numbers(names: &[String]) -> bool {
    let mut numbered = names.iter().enumerate();
    numbered.all(|(number, name)| *name == number.to_string())
}

/// Whether classes with these names on either side are the same where their numbers are: one side has no names but
/// numbers, of which none is a name on the other side.
fn are_same_by_number(names: &[String], known: &[String]) -> bool {
    match (are_numbers(names), are_numbers(known)) {
        (true, true) => true,
        (false, false) => *known == numbered_labels(known.len()),
        _ => !names.iter().any(|name| known.contains(name)),
    }
}

/// Names the classes of a model for data that calls them `names`. Numbers are no names, unless some of them are: a
/// checkpoint that has named these classes may have more of them.
pub(crate) fn name_classes(model: &mut Model, names: &[String]) {
    let known = model.labels();
    let is_named = same_classes(names, known).is_some();
    let are_numbers = are_numbers(names) && are_same_by_number(names, known);
    if is_named || !(are_numbers && known.len() >= names.len()) {
        model.set_labels(names.to_vec());
    }
}

/// A remark on classes that are matched by number, since only the model or only the data names them; none where both
/// have names, or neither has.
pub fn unnamed(model: &Model, names: &[String]) -> Option<String> {
    let known = model.labels();
    let is_unnamed = |names: &[String]| are_numbers(names) || *names == numbered_labels(names.len());
    if known.is_empty() || names.is_empty() || !are_same_by_number(names, known) {
        return None;
    }
    let pairs = known.iter().zip(names);
    let (whose, order, all): (_, _, Vec<String>) = match (is_unnamed(known), is_unnamed(names)) {
        (true, false) => (
            "model",
            "data",
            pairs.map(|(own, name)| format!("{own} is {name}")).collect(),
        ),
        (false, true) => (
            "data",
            "model",
            pairs.map(|(own, name)| format!("{name} is {own}")).collect(),
        ),
        _ => return None,
    };
    Some(format!(
        "the {whose} has no names for its classes, so they are taken in the {order}'s order: {}",
        some_of(&all)
    ))
}

/// Numbers the classes of a trained classifier in the order of `names`, the data's. Returns the old number of each
/// class, from which rows of the last layer are to be taken; none where the order stays. Where one side has numbers for
/// names, and none of them is a name on the other side, equal numbers mean equal classes.
///
/// # Errors
/// A class that the model does not know.
pub fn number_classes(model: &mut Model, names: &[String]) -> Result<Option<Vec<usize>>> {
    let known = model.labels();
    if are_same_by_number(names, known) || names == known {
        if names.len() <= known.len() {
            return Ok(None);
        }
        return Err(Error::user(format!(
            "the data has {} classes but the model only {}; name data of the same task",
            names.len(),
            known.len()
        )));
    }
    // Data may lack some of the classes.
    let is_new = |name: &&String| !names.iter().any(|own| own.to_lowercase() == name.to_lowercase());
    let rest = known.iter().filter(is_new);
    let all: Vec<String> = names.iter().chain(rest).cloned().collect();
    let Some(places) = same_classes(&all, known) else {
        return Err(Error::user(format!(
            "the data's classes are {} but the model's are {}; name data of the same task",
            names.join(", "),
            known.join(", ")
        )));
    };
    model.set_labels(all);
    Ok(Some(places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
    use lessen_nn::{Weight, Weights, reorder_classes};

    fn names(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    /// Classes and biases after renumbering the classes `fair foul windy` with the biases 0, 1 and 2.
    fn renumbered(data: &str) -> Result<(Vec<String>, Vec<f32>)> {
        let config = EncoderConfig {
            labels: names("fair foul windy"),
            ..EncoderConfig::default()
        };
        let mut model = Model::from(LessenEncoder { config });
        let bias = Weight {
            shape: vec![3],
            data: vec![0.0, 1.0, 2.0],
        };
        let mut weights = Weights::from([("classifier.bias".to_string(), bias)]);
        if let Some(places) = number_classes(&mut model, &names(data))? {
            reorder_classes(&mut weights, &places);
        }
        Ok((model.labels().to_vec(), weights["classifier.bias"].data.clone()))
    }

    #[test]
    fn classes_are_numbered_as_the_data_does() {
        let becomes = |labels, bias: [f32; 3]| Ok((names(labels), bias.to_vec()));
        assert_eq!(
            renumbered("windy Fair foul"),
            becomes("windy Fair foul", [2.0, 0.0, 1.0])
        );
        // The data may lack a class.
        assert_eq!(renumbered("windy foul"), becomes("windy foul fair", [2.0, 1.0, 0.0]));
        for numbers in ["0 1", "0 1 2"] {
            assert_eq!(renumbered(numbers), becomes("fair foul windy", [0.0, 1.0, 2.0]));
        }
    }

    #[test]
    fn numbers_that_are_names_are_no_numbers() {
        let model = |labels: &str| {
            let config = EncoderConfig {
                labels: names(labels),
                ..EncoderConfig::default()
            };
            Model::from(LessenEncoder { config })
        };
        let named = |labels: &str, data: &str| {
            let mut model = model(labels);
            name_classes(&mut model, &names(data));
            model.labels().join(" ")
        };
        for (labels, data, becomes) in [
            ("fair foul windy", "0 1", "fair foul windy"),
            ("0 1 2", "0 1", "0 1 2"),
            ("LABEL_0 LABEL_1", "0 1", "LABEL_0 LABEL_1"),
            ("LABEL_0 LABEL_1", "a b", "a b"),
            // 1 and 2 are names of the model, and 0 is none.
            ("1 2 3", "0 1 2", "0 1 2"),
            ("1 2 3", "1 2 3", "1 2 3"),
        ] {
            assert_eq!(named(labels, data), becomes, "{labels}; {data}");
        }
        assert!(number_classes(&mut model("1 2 3"), &names("0 1 2")).is_err());
        assert!(number_classes(&mut model("0 1 2"), &names("1 2 3")).is_err());
        assert_eq!(
            number_classes(&mut model("1 2 3"), &names("3 1 2")),
            Ok(Some(vec![2, 0, 1]))
        );
        let remark = unnamed(&model("LABEL_0 LABEL_1"), &names("good bad")).unwrap();
        assert!(
            remark.ends_with("taken in the data's order: LABEL_0 is good, LABEL_1 is bad"),
            "{remark}"
        );
        let remark = unnamed(&model("0 1"), &names("good bad")).unwrap();
        assert!(remark.ends_with("in the data's order: 0 is good, 1 is bad"), "{remark}");
        let remark = unnamed(&model("good bad"), &names("0 1")).unwrap();
        assert!(
            remark
                == "the data has no names for its classes, so they are taken in the model's order: 0 is good, 1 is bad",
            "{remark}"
        );
        for (labels, data) in [
            ("a b", "b a"),
            ("LABEL_0 LABEL_1", "0 1"),
            ("LABEL_0 LABEL_1", "LABEL_0 LABEL_1"),
            ("1 2", "0 1"),
        ] {
            assert_eq!(unnamed(&model(labels), &names(data)), None, "{labels}; {data}");
        }
    }

    #[test]
    fn classes_that_the_model_does_not_know_are_refused() {
        let refused = |data| renumbered(data).unwrap_err().to_string();
        for data in ["fair mild", "fair foul windy mild", "fair fair foul"] {
            assert!(
                refused(data).ends_with("but the model's are fair, foul, windy; name data of the same task"),
                "{data}"
            );
        }
        assert_eq!(
            refused("0 1 2 3"),
            "the data has 4 classes but the model only 3; name data of the same task"
        );
    }
}
