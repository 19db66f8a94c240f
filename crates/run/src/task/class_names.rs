//! Names of classes, whose order may differ between data and a trained classifier.

use lessen_base::{Error, Result};
use lessen_nn::{Model, numbered_labels, same_classes};

/// Whether the names of classes are their numbers, `0`, `1` and so on: the default for data without names.
pub(crate) fn are_numbers(names: &[String]) -> bool {
    let mut numbered = names.iter().enumerate();
    numbered.all(|(number, name)| *name == number.to_string())
}

/// Names the classes of a model for data that calls them `names`. Numbers are no names: a checkpoint that has named
/// these classes may have more of them.
pub(crate) fn name_classes(model: &mut Model, names: &[String]) {
    let is_named = same_classes(names, model.labels()).is_some();
    if is_named || !(are_numbers(names) && model.labels().len() >= names.len()) {
        model.set_labels(names.to_vec());
    }
}

/// Numbers the classes of a trained classifier in the order of `names`, the data's. Returns the old number of each
/// class, from which rows of the last layer are to be taken; none where the order stays. Where either side has numbers
/// for names, equal numbers mean equal classes.
///
/// # Errors
/// A class that the model does not know.
pub(crate) fn number_classes(model: &mut Model, names: &[String]) -> Result<Option<Vec<usize>>> {
    let known = model.labels();
    let by_number = are_numbers(names) || are_numbers(known) || *known == numbered_labels(known.len());
    if by_number || names == known {
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
