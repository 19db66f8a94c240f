//! From the logits of a model to the answers of questions.

use crate::answer_scores::AnswerScores;
use crate::question_batches::{QuestionBatches, Window};

/// An answer that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundAnswer {
    /// The answer, a part of its context; empty for no answer.
    pub text: String,
    /// The characters of its context from the first one to the one after the last.
    pub characters: std::ops::Range<usize>,
    /// The probability of its first token times that of its last one, each by a softmax over the tokens of its window's
    /// context and the window's first token, which stands for no answer.
    pub probability: f64,
    /// The score of no answer minus that of the best answer, sums of logits: the number that is compared with the
    /// threshold.
    pub null_margin: f64,
}

/// A stretch of tokens, its score and its probability.
#[derive(Clone, Copy)]
struct Candidate {
    first: usize,
    last: usize,
    score: f64,
    probability: f64,
    /// Where the context of its window begins.
    window: usize,
}

/// No answer: its score and probability.
#[derive(Clone, Copy)]
struct Null {
    score: f64,
    probability: f64,
    /// Where the context of its window begins.
    window: usize,
}

/// The best answers to the questions of a source, collected over its evaluation batches. As in the evaluation of BERT
/// (Devlin et al. 2019), the score of an answer is the sum of the logits of its first and its last token, the best one
/// of all windows is taken, and the score of no answer is the least one of all windows; among answers are all stretches
/// of at most `longest` tokens of the context.
pub struct Answers<'a> {
    source: &'a QuestionBatches,
    best: Vec<Option<Candidate>>,
    null: Vec<Null>,
    /// A logit of each question that is NaN or infinite, if there is one.
    not_finite: Vec<Option<f32>>,
}

impl<'a> Answers<'a> {
    /// Nothing yet.
    pub fn new(source: &'a QuestionBatches) -> Answers<'a> {
        let count = source.asked().len();
        let none = Null {
            score: f64::INFINITY,
            probability: 1.0,
            window: 0,
        };
        Answers {
            source,
            best: vec![None; count],
            null: vec![none; count],
            not_finite: vec![None; count],
        }
    }

    /// Takes the logits of an evaluation batch: `f32[2, B, N]`, of the first and of the last token.
    pub fn add(&mut self, index: u64, logits: &[f32]) {
        let windows = self.source.windows_of(index);
        let (firsts, lasts) = logits.split_at(logits.len() / 2);
        let mut start = 0;
        let rows = self.source.rows(index);
        let tokens = firsts.len() / rows.max(1);
        for (row, window) in windows.into_iter().enumerate() {
            let end = start + self.source.length(window);
            let of = |logits: &'_ [f32]| -> Vec<f32> { logits[row * tokens + start..row * tokens + end].to_vec() };
            self.add_window(window, &of(firsts), &of(lasts));
            start = end;
        }
    }

    fn add_window(&mut self, window: &Window, firsts: &[f32], lasts: &[f32]) {
        let wrong = firsts.iter().chain(lasts).find(|logit| !logit.is_finite());
        if let Some(logit) = wrong {
            self.not_finite[window.question] = Some(*logit);
        }
        let (before, count) = (self.source.before(window), window.context.len());
        let context = before..before + count;
        let null = Null {
            score: f64::from(firsts[0]) + f64::from(lasts[0]),
            probability: share(firsts[0], firsts, &context) * share(lasts[0], lasts, &context),
            window: window.context.start,
        };
        // Windows come in any order; of equal scores that of the first window counts.
        let own = &mut self.null[window.question];
        if null.score < own.score || (null.score == own.score && null.window < own.window) {
            *own = null;
        }
        let longest = self.source.asking().longest;
        let mut best: Option<(usize, usize, f64)> = None;
        for first in 0..count {
            let begin = self.source.span(window.context.start + first).0;
            for last in first..(first + longest).min(count) {
                let score = f64::from(firsts[before + first]) + f64::from(lasts[before + last]);
                let is_better = best.is_none_or(|(.., most)| score > most);
                // A token may stand for no character.
                if is_better && self.source.span(window.context.start + last).1 > begin {
                    best = Some((first, last, score));
                }
            }
        }
        let own = &mut self.best[window.question];
        let is_better =
            |own: Candidate, score: f64| score > own.score || (score == own.score && window.context.start < own.window);
        if let Some((first, last, score)) = best.filter(|(.., score)| own.is_none_or(|own| is_better(own, *score))) {
            let probability =
                share(firsts[before + first], firsts, &context) * share(lasts[before + last], lasts, &context);
            *own = Some(Candidate {
                first: window.context.start + first,
                last: window.context.start + last,
                score,
                probability,
                window: window.context.start,
            });
        }
    }

    /// The score that no answer must exceed the best one by; none where every question is answered.
    fn threshold(&self) -> Option<f64> {
        let asking = self.source.asking();
        asking
            .null_threshold
            .or(self.source.asked().has_unanswerable().then_some(0.0))
    }

    /// Returns a logit of each question that is NaN or infinite, so that its answer is none; none where all are finite.
    pub fn not_finite(&self) -> impl Iterator<Item = Option<f32>> {
        self.not_finite.iter().copied()
    }

    /// Returns the answers in the order of the questions.
    pub fn found(&self) -> impl Iterator<Item = FoundAnswer> {
        let threshold = self.threshold();
        let all = self.source.asked().iter().zip(&self.best).zip(&self.null);
        all.map(move |((question, best), null)| {
            let none = |null_margin| FoundAnswer {
                text: String::new(),
                characters: 0..0,
                probability: null.probability,
                null_margin,
            };
            let Some(best) = best else {
                return none(f64::INFINITY);
            };
            let margin = null.score - best.score;
            if threshold.is_some_and(|threshold| margin > threshold) {
                return none(margin);
            }
            let context = &self.source.asked().contexts()[question.context];
            let bytes = self.source.span(best.first).0..self.source.span(best.last).1;
            let text = context.get(bytes.clone()).unwrap_or_default();
            let start = context.get(..bytes.start).unwrap_or_default().chars().count();
            FoundAnswer {
                text: text.to_string(),
                characters: start..start + text.chars().count(),
                probability: best.probability,
                null_margin: margin,
            }
        })
    }

    /// Scores the answers against the given ones.
    pub fn scores(&self) -> AnswerScores {
        let mut scores = AnswerScores::default();
        for (question, found) in self.source.asked().iter().zip(self.found()) {
            scores.add(&found.text, question.answers.iter().map(|answer| answer.text.as_str()));
        }
        scores
    }
}

/// The probability of a logit, by a softmax over the window's first token and its context.
fn share(logit: f32, logits: &[f32], context: &std::ops::Range<usize>) -> f64 {
    let all = || std::iter::once(&logits[0]).chain(&logits[context.clone()]);
    let top = all().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = all().map(|other| f64::from(other - top).exp()).sum();
    f64::from(logit - top).exp() / total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Asking, Batching, Order, Question, Questions, Source, Tokenizer};
    use std::sync::Arc;

    /// Questions `h` about contexts, the answers being the given ones.
    fn source(contexts: &[(&str, bool)], asking: Asking) -> QuestionBatches {
        let mut questions = Questions::default();
        for (context, is_impossible) in contexts {
            let context = questions.add_context(context.to_string());
            questions.add(Question {
                id: context.to_string(),
                text: "h".to_string(),
                context,
                answers: Vec::new(),
                is_impossible: *is_impossible,
            });
        }
        let tokenizer = Tokenizer::marked_characters(["abcdefghé"], 1);
        QuestionBatches::new(
            Arc::new(questions),
            &tokenizer,
            asking,
            Batching::Examples(3),
            Order::InOrder,
        )
        .unwrap()
    }

    /// The answers where logits are 0 but for these: (batch, first or last, row, place, logit).
    fn found(source: &QuestionBatches, logits: &[(u64, usize, usize, usize, f32)]) -> Vec<FoundAnswer> {
        let mut answers = Answers::new(source);
        for index in 0..source.eval_batches() {
            let n = source.eval_batch(index).unwrap().get("tokens").unwrap().shape()[1];
            let mut all = vec![0.0; 2 * 3 * n];
            for (_, side, row, place, logit) in logits.iter().filter(|(batch, ..)| *batch == index) {
                all[(side * 3 + row) * n + place] = *logit;
            }
            answers.add(index, &all);
        }
        answers.found().collect()
    }

    #[test]
    fn the_best_stretch_of_the_context_is_found_in_characters() {
        // The row is [CLS] h [SEP] c d é f [SEP], then the next one.
        let source = source(&[("cdéf", false), ("ab", false)], Asking::default());
        let all = found(
            &source,
            &[
                (0, 0, 0, 4, 3.0),
                (0, 1, 0, 5, 2.0),
                (0, 0, 1, 8 + 4, 1.0),
                (0, 1, 1, 8 + 1, 9.0),
            ],
        );
        assert_eq!((all[0].text.as_str(), all[0].characters.clone()), ("dé", 1..3));
        let (e3, e2) = (3f64.exp(), 2f64.exp());
        let expected = e3 / (e3 + 4.0) * e2 / (e2 + 4.0);
        assert!((all[0].probability - expected).abs() < 1e-7, "{}", all[0].probability);
        assert_eq!(all[0].null_margin, -5.0);
        // The largest logit is the question's, where no answer is.
        assert_eq!((all[1].text.as_str(), all[1].characters.clone()), ("b", 1..2));
    }

    #[test]
    fn an_answer_ends_after_it_begins_and_is_not_too_long() {
        let asking = Asking {
            longest: 2,
            ..Asking::default()
        };
        let backwards = [(0, 0, 0, 6, 3.0), (0, 1, 0, 3, 3.5)];
        assert_eq!(found(&source(&[("cdéf", false)], asking), &backwards)[0].text, "c");
        let long = [(0, 0, 0, 3, 3.0), (0, 1, 0, 6, 2.5)];
        assert_eq!(found(&source(&[("cdéf", false)], asking), &long)[0].text, "c");
        assert_eq!(
            found(&source(&[("cdéf", false)], Asking::default()), &long)[0].text,
            "cdéf"
        );
    }

    #[test]
    fn no_answer_is_taken_where_its_least_score_is_above_the_best_answers_by_the_threshold() {
        // Two windows: [CLS] h [SEP] a b c d [SEP] and [CLS] h [SEP] c d e f [SEP].
        let asking = Asking {
            max_length: 8,
            stride: 2,
            ..Asking::default()
        };
        let windows = [(0, 0, 0, 0, 5.0), (0, 0, 1, 8, 4.0), (0, 1, 1, 8 + 5, 1.0)];
        let text = |is_impossible, null_threshold| {
            let asking = Asking {
                null_threshold,
                ..asking
            };
            let answer = found(&source(&[("abcdef", is_impossible)], asking), &windows).remove(0);
            assert_eq!(answer.null_margin, 3.0);
            answer.text
        };
        assert_eq!(text(false, None), "cde");
        assert_eq!(text(true, None), "");
        assert_eq!(text(false, Some(2.9)), "");
        assert_eq!(text(true, Some(3.0)), "cde");
        assert_eq!(found(&source(&[("", false)], asking), &[])[0].text, "");
    }
}
