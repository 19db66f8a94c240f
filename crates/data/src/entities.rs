//! Entities in sequences of labels, and their F1 score, as CoNLL's evaluation script and `seqeval` compute it.

use std::ops::Range;

/// Counts of entities over sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntityCounts {
    /// Entities that were predicted.
    pub predicted: usize,
    /// Entities of the labels.
    pub labelled: usize,
    /// The entities that are both given and found, with the same type, begin and end.
    pub right: usize,
}

impl EntityCounts {
    /// Adds a sentence: the names of predicted labels and of the labels, word by word.
    pub fn add(&mut self, predicted: &[&str], labelled: &[&str]) {
        let (predicted, labelled) = (entities(predicted), entities(labelled));
        self.predicted += predicted.len();
        self.labelled += labelled.len();
        self.right += predicted.iter().filter(|entity| labelled.contains(entity)).count();
    }

    /// The harmonic mean of precision and recall, `2 right / (predicted + labelled)`; 0 where there are no entities.
    pub fn f1(&self) -> f64 {
        match self.predicted + self.labelled {
            0 => 0.0,
            both => 2.0 * self.right as f64 / both as f64,
        }
    }
}

/// The type of entities whose labels are `B`, `I`, `E` or `S` alone, as `seqeval` calls it.
const NO_TYPE: &str = "_";

/// Whether labels mark entities: `O`, and others that begin with `B-`, `I-`, `E-` or `S-`, or are these letters alone.
pub fn are_entities(names: &[String]) -> bool {
    let is_part = |name: &String| split(name).0 != 'O';
    names.iter().any(is_part) && names.iter().all(|name| name == "O" || is_part(name))
}

/// Position in its entity (`O` for none) and entity type of a label.
fn split(label: &str) -> (char, &str) {
    let (letter, kind) = label.split_once('-').unwrap_or((label, NO_TYPE));
    let kind = if kind.is_empty() { NO_TYPE } else { kind };
    match letter {
        "B" => ('B', kind),
        "I" => ('I', kind),
        "E" => ('E', kind),
        "S" => ('S', kind),
        _ => ('O', ""),
    }
}

/// An entity in a sequence of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntitySpan {
    /// Its type, such as `PER`.
    pub kind: String,
    /// Its words.
    pub words: Range<usize>,
}

/// Returns the entities in the labels of a sentence, word by word. A label that goes on with another type, or with none
/// before it, begins one.
pub fn entity_spans(labels: &[&str]) -> Vec<EntitySpan> {
    let span = |(kind, first, last): (&str, usize, usize)| EntitySpan {
        kind: kind.to_string(),
        words: first..last + 1,
    };
    entities(labels).into_iter().map(span).collect()
}

/// Entities as type, first and last word.
fn entities<'a>(labels: &[&'a str]) -> Vec<(&'a str, usize, usize)> {
    let mut found: Vec<(&str, usize, usize)> = Vec::new();
    let mut before = ('O', "");
    for (word, label) in labels.iter().enumerate() {
        let now = split(label);
        let goes_on = matches!(now.0, 'I' | 'E') && matches!(before.0, 'B' | 'I') && now.1 == before.1;
        if now.0 != 'O' {
            match found.last_mut() {
                Some(last) if goes_on => last.2 = word,
                _ => found.push((now.1, word, word)),
            }
        }
        before = now;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(&str, usize, usize)> {
        entities(&text.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn entities_begin_and_end_as_in_conlls_script() {
        assert_eq!(of("B-PER I-PER O B-LOC"), [("PER", 0, 1), ("LOC", 3, 3)]);
        assert_eq!(
            of("I-PER I-PER B-PER I-LOC"),
            [("PER", 0, 1), ("PER", 2, 2), ("LOC", 3, 3)]
        );
        assert_eq!(
            of("B-X I-X E-X E-X S-X I-X"),
            [("X", 0, 2), ("X", 3, 3), ("X", 4, 4), ("X", 5, 5)]
        );
        assert_eq!(of("O O"), []);
        assert_eq!(of("O I-A O I-A"), [("A", 1, 1), ("A", 3, 3)]);
        // Labels without a type have one of their own.
        assert_eq!(
            of("B I O I B-X I B- I"),
            [("_", 0, 1), ("_", 3, 3), ("X", 4, 4), ("_", 5, 5), ("_", 6, 7)]
        );
        let spans = entity_spans(&["O", "B-PER", "I-PER"]);
        assert_eq!(
            (spans.len(), spans[0].kind.as_str(), spans[0].words.clone()),
            (1, "PER", 1..3)
        );
    }

    #[test]
    fn the_score_counts_whole_entities() {
        let mut counts = EntityCounts::default();
        counts.add(&["B-PER", "I-PER", "O", "B-LOC"], &["B-PER", "I-PER", "I-PER", "B-LOC"]);
        assert_eq!((counts.predicted, counts.labelled, counts.right), (2, 2, 1));
        counts.add(&["O"], &["B-LOC"]);
        assert_eq!(counts.f1(), 0.4);
        assert_eq!(EntityCounts::default().f1(), 0.0);
        let names = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        assert!(are_entities(&names("O B-PER I-PER")) && are_entities(&names("B I O")) && are_entities(&names("B I")));
        let mut bare = EntityCounts::default();
        bare.add(&["B", "I", "O", "B"], &["B", "I", "I", "B"]);
        assert_eq!((bare.predicted, bare.labelled, bare.right), (2, 2, 1));
        assert!(!are_entities(&names("NOUN VERB")) && !are_entities(&names("O")) && !are_entities(&names("O X B-Y")));
    }
}
