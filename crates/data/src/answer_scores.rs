//! The scores of answers, as SQuAD's evaluation scripts compute them.

use std::collections::HashMap;

/// Exact match and F1 over questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnswerScores {
    exact: usize,
    overlap: f64,
    questions: usize,
}

impl AnswerScores {
    /// Adds a question: the answer that was found, empty for none, and the right ones; the nearest of them counts;
    /// with none of them, it is right to find none.
    pub fn add<'a>(&mut self, found: &str, right: impl IntoIterator<Item = &'a str>) {
        let found = normalized(found);
        let mut right: Vec<String> = right
            .into_iter()
            .map(normalized)
            .filter(|text| !text.is_empty())
            .collect();
        if right.is_empty() {
            right.push(String::new());
        }
        self.exact += usize::from(right.contains(&found));
        self.overlap += right.iter().map(|right| overlap(&found, right)).fold(0.0, f64::max);
        self.questions += 1;
    }

    /// The share of questions whose answer is a right one, word by word.
    pub fn exact_match(&self) -> f64 {
        self.exact as f64 / self.questions.max(1) as f64
    }

    /// The mean over questions of the harmonic mean of precision and recall of words.
    pub fn f1(&self) -> f64 {
        self.overlap / self.questions.max(1) as f64
    }

    /// The number of questions.
    pub fn questions(&self) -> usize {
        self.questions
    }
}

/// Returns an answer as it is compared: in lower case, without ASCII punctuation and English articles, with single
/// spaces.
pub fn normalized(answer: &str) -> String {
    let lower = answer.to_lowercase();
    let plain = lower.chars().filter(|character| !character.is_ascii_punctuation());
    let plain: String = plain.collect();
    // An article ends where anything else than a letter or digit stands.
    let is_of_word = |character: char| character.is_alphanumeric();
    let (mut kept, mut rest) = (String::with_capacity(plain.len()), plain.as_str());
    while !rest.is_empty() {
        let starts_word = rest.starts_with(is_of_word);
        let end = rest
            .find(|character| is_of_word(character) != starts_word)
            .unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        kept.push_str(if ["a", "an", "the"].contains(&part) { " " } else { part });
        rest = after;
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// F1 of the words of two normalized answers; of an empty one, whether the other is empty, too.
fn overlap(found: &str, right: &str) -> f64 {
    if found.is_empty() || right.is_empty() {
        return f64::from(u8::from(found == right));
    }
    let mut counts = HashMap::<&str, usize>::new();
    right.split(' ').for_each(|word| *counts.entry(word).or_default() += 1);
    let mut same = 0;
    for word in found.split(' ') {
        if let Some(count) = counts.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            same += 1;
        }
    }
    2.0 * f64::from(same) / (found.split(' ').count() + right.split(' ').count()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_without_case_articles_and_punctuation() {
        for (answer, expected) in [
            ("The  Eiffel-Tower.", "eiffeltower"),
            ("a an the", ""),
            ("Theatre of an anthem", "theatre of anthem"),
            ("U.S. \u{201c}the\u{201d} Navy's", "us \u{201c} \u{201d} navys"),
            ("ÉCOLE a\u{a0}b", "école b"),
            ("", ""),
        ] {
            assert_eq!(normalized(answer), expected, "{answer}");
        }
    }

    #[test]
    fn the_nearest_right_answer_counts() {
        let of = |found: &str, right: &[&str]| {
            let mut scores = AnswerScores::default();
            scores.add(found, right.iter().copied());
            (scores.exact_match(), scores.f1())
        };
        assert_eq!(of("the cat", &["dog", "Cat!"]), (1.0, 1.0));
        // Precision 2/3, recall 2/4.
        let (exact, f1) = of("black big cat", &["cat cat black dog"]);
        assert!(exact == 0.0 && (f1 - 4.0 / 7.0).abs() < 1e-12, "{f1}");
        assert_eq!(of("x x", &["x"]), (0.0, 2.0 / 3.0));
        assert_eq!(of("dog", &["cat"]), (0.0, 0.0));
        // No answer is right where there is none, and an answer of articles is none.
        assert_eq!(
            (of("", &[]), of("cat", &[]), of("the", &[])),
            ((1.0, 1.0), (0.0, 0.0), (1.0, 1.0))
        );
        assert_eq!((of("", &["cat"]), of("", &["The"])), ((0.0, 0.0), (1.0, 1.0)));
    }

    #[test]
    fn scores_are_means_over_questions() {
        let mut scores = AnswerScores::default();
        assert_eq!((scores.exact_match(), scores.f1()), (0.0, 0.0));
        scores.add("cat", ["cat"]);
        scores.add("cat", ["dog"]);
        assert_eq!((scores.exact_match(), scores.f1(), scores.questions()), (0.5, 0.5, 2));
    }
}
