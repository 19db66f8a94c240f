//! Batches of questions about texts.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::batching::{Batches, Batching};
use crate::epoch::Order;
use crate::parallel::in_parallel;
use crate::questions::{Question, Questions};
use crate::tokenizer::{AroundPair, Tokenizer};
use crate::tokens::count_in;

/// How questions are cut into windows, and how answers are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asking {
    /// Most tokens of a window: a question, a part of its context and the special tokens.
    pub max_length: usize,
    /// Tokens that a window shares with the next one about the same context.
    pub stride: usize,
    /// Most tokens of an answer.
    pub longest: usize,
    /// By how much the score of no answer must be above that of the best answer to be taken. Without it every question
    /// is answered, and where the data has questions without answers it is 0.
    pub null_threshold: Option<f64>,
}

impl Default for Asking {
    fn default() -> Asking {
        Asking {
            max_length: 384,
            stride: 128,
            longest: 30,
            null_threshold: None,
        }
    }
}

/// A question and a part of its context.
pub(crate) struct Window {
    pub(crate) question: usize,
    /// The tokens of the context, numbered over all contexts.
    pub(crate) context: std::ops::Range<usize>,
    /// The first and the last token of the answer in the window; the window's first token where it has no answer.
    pub(crate) answer: (usize, usize),
}

/// Questions about texts, encoded once and served in batches of windows without padding; see
/// [`Batch`](crate::Batch) for the fields.
///
/// A window is a question and a part of its context, as long as fits. Windows about the same context overlap, so that
/// an answer that one cuts is whole in another. Of a question longer than half a window the rest is cut.
pub struct QuestionBatches {
    questions: Arc<Questions>,
    pub(crate) around: AroundPair,
    /// The tokens of each question.
    pub(crate) asked: Vec<Vec<i32>>,
    /// The tokens of all contexts, and the bytes of its context that each stands for.
    pub(crate) ids: Vec<i32>,
    spans: Vec<(usize, usize)>,
    pub(crate) windows: Vec<Window>,
    asking: Asking,
    pub(crate) pad: i32,
    /// How many tokens stand for what the vocabulary lacks, and how many there are.
    pub(crate) unknown: Option<(u64, u64)>,
    /// The number of questions that lack tokens.
    pub(crate) cut: u64,
    pub(crate) batches: Batches,
}

impl QuestionBatches {
    /// Encodes questions.
    ///
    /// # Errors
    /// No questions; windows that leave no room for text beside the special tokens; a text that the tokenizer cannot
    /// encode; a batch of 0 windows, or of fewer tokens than a window has.
    pub fn new(
        questions: Arc<Questions>,
        tokenizer: &Tokenizer,
        asking: Asking,
        batching: Batching,
        order: Order,
    ) -> Result<QuestionBatches> {
        if questions.is_empty() {
            return Err(Error::user(
                "there are no questions to make batches of; add some to the data",
            ));
        }
        let around = tokenizer.around_a_pair()?;
        let room = asking.max_length.saturating_sub(around.len());
        if room < 2 {
            return Err(Error::user(format!(
                "a length of {} leaves no room for a question and its context beside {} special tokens; raise data.max_length",
                asking.max_length,
                around.len()
            )));
        }
        let texts: Vec<&str> = questions.iter().map(|question| question.text.trim_start()).collect();
        let mut asked = in_parallel(&texts, |text| tokenizer.encode(text))?;
        let cut = asked.iter().filter(|ids| ids.len() > room / 2).count() as u64;
        asked.iter_mut().for_each(|ids| ids.truncate(room / 2));
        let (mut ids, mut spans, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for (own, of) in in_parallel(questions.contexts(), |context| tokenizer.encode_spans(context))? {
            ids.extend(own);
            spans.extend(of);
            starts.push(ids.len());
        }
        let mut windows = Vec::new();
        for (number, question) in questions.iter().enumerate() {
            let (first, end) = (starts[question.context], starts[question.context + 1]);
            let room = room - asked[number].len();
            let step = room - asking.stride.min(room - 1);
            let before = around.before.len() + asked[number].len() + around.between.len();
            let mut start = first;
            loop {
                let context = start..(start + room).min(end);
                let answer = answer_in(question, &spans[context.clone()]);
                let answer = answer.map_or((0, 0), |(from, to)| (before + from, before + to));
                let is_last = context.end == end;
                windows.push(Window {
                    question: number,
                    context,
                    answer,
                });
                if is_last {
                    break;
                }
                start += step;
            }
        }
        let length = |window: usize| {
            let Window { question, context, .. } = &windows[window];
            around.len() + asked[*question].len() + context.len()
        };
        let batches = Batches::new(windows.len(), batching, order, length)?;
        let all = || asked.iter().chain([&ids]);
        let count = all().map(|ids| ids.len() as u64).sum();
        let unknown = tokenizer.unknown_id();
        let unknown = unknown.map(|id| (all().map(|ids| count_in(ids, id)).sum(), count));
        Ok(QuestionBatches {
            questions,
            around,
            asked,
            ids,
            spans,
            windows,
            asking,
            pad: tokenizer.pad_id(),
            unknown,
            cut,
            batches,
        })
    }

    /// Makes evaluation batches of windows from anywhere in the data, so that they have about equal numbers of tokens
    /// and share a layout. Batches that are bounded by tokens stay in order.
    pub fn with_balanced_evaluations(mut self) -> QuestionBatches {
        self.batches.balance_evaluations();
        self
    }

    /// Returns the questions.
    pub fn asked(&self) -> &Questions {
        &self.questions
    }

    /// Returns the number of windows.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// How answers are chosen.
    pub(crate) fn asking(&self) -> Asking {
        self.asking
    }

    /// The number of tokens of a window before its context.
    pub(crate) fn before(&self, window: &Window) -> usize {
        self.around.before.len() + self.asked[window.question].len() + self.around.between.len()
    }

    /// The number of tokens of a window.
    pub(crate) fn length(&self, window: &Window) -> usize {
        self.around.len() + self.asked[window.question].len() + window.context.len()
    }

    /// The bytes of its context that a token stands for.
    pub(crate) fn span(&self, token: usize) -> (usize, usize) {
        self.spans[token]
    }
}

/// The first and the last token of a question's first answer among tokens that stand for these bytes; none where they
/// do not have all of it.
fn answer_in(question: &Question, spans: &[(usize, usize)]) -> Option<(usize, usize)> {
    let answer = question.answers.first()?;
    let (start, end) = (answer.start, answer.start + answer.text.len());
    if spans.first()?.0 > start || spans.last()?.1 < end {
        return None;
    }
    let first = spans.iter().rposition(|span| span.0 <= start)?;
    let last = spans.iter().position(|span| span.1 >= end)?;
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::batch::{Batch, IGNORE};
    use crate::questions::GivenAnswer;

    /// Characters a to h are 5 to 12.
    fn tokenizer() -> Tokenizer {
        Tokenizer::marked_characters(["abcdefgh"], 1)
    }

    fn questions(all: &[(&str, &str, Option<&str>)]) -> Arc<Questions> {
        let mut questions = Questions::default();
        for (question, context, answer) in all {
            let number = questions.add_context(context.to_string());
            let answer = answer.map(|text| GivenAnswer {
                start: context.find(text).unwrap(),
                text: text.to_string(),
            });
            questions.add(Question {
                id: String::new(),
                text: question.to_string(),
                context: number,
                answers: answer.into_iter().collect(),
                is_impossible: false,
            });
        }
        Arc::new(questions)
    }

    fn batches(all: &[(&str, &str, Option<&str>)], max_length: usize, stride: usize, size: usize) -> QuestionBatches {
        let asking = Asking {
            max_length,
            stride,
            ..Asking::default()
        };
        QuestionBatches::new(
            questions(all),
            &tokenizer(),
            asking,
            Batching::Examples(size),
            Order::InOrder,
        )
        .unwrap()
    }

    fn ints(batch: &Batch, name: &str) -> Vec<i32> {
        batch.get(name).unwrap().as_i32().unwrap().to_vec()
    }

    #[test]
    fn a_window_is_a_question_and_its_context_and_answers_are_places_in_the_row() {
        let source = batches(&[(" ab", "cdef", Some("de")), ("h", "ab", None)], 16, 2, 3);
        let batch = source.batch(0).unwrap();
        assert_eq!(
            ints(&batch, "tokens")[..15],
            [2, 5, 6, 3, 7, 8, 9, 10, 3, 2, 12, 3, 5, 6, 3][..]
        );
        assert_eq!(
            ints(&batch, "types")[..15],
            [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1][..]
        );
        assert_eq!(ints(&batch, "starts"), [0, 9, 15, 15]);
        // Where there is no answer it is the window's first token.
        assert_eq!(ints(&batch, "answers"), [5, 9, IGNORE, 6, 9, IGNORE]);
        assert_eq!((batch.examples, batch.tokens), (2, 15));
        assert_eq!(source.largest_layout(0..1), Some((3, 16)));
    }

    #[test]
    fn long_contexts_have_windows_that_overlap() {
        // Room for 4 tokens of the context beside 3 special ones and the question.
        let source = batches(&[("h", "abcdefg", Some("ef"))], 8, 2, 8);
        assert_eq!(source.windows(), 3);
        let batch = source.eval_batch(0).unwrap();
        let tokens = ints(&batch, "tokens");
        let of = |start: usize| tokens[start..start + 4].to_vec();
        assert_eq!([of(3), of(11), of(19)], [[5, 6, 7, 8], [7, 8, 9, 10], [9, 10, 11, 3]]);
        // The first window cuts the answer off.
        let answers = ints(&batch, "answers");
        assert_eq!((&answers[..3], &answers[8..11]), (&[0, 13, 19][..], &[0, 14, 20][..]));
        // A stride that leaves no step, and a question that takes more than half.
        assert_eq!(batches(&[("h", "abcdefg", None)], 8, 9, 8).windows(), 4);
        assert_eq!(batches(&[("hhhhhhhh", "abcdefg", None)], 8, 1, 8).windows(), 3);
    }

    #[test]
    fn a_context_without_tokens_has_a_window() {
        let source = batches(&[("h", "", None)], 8, 2, 1);
        assert_eq!(ints(&source.batch(0).unwrap(), "tokens")[..4], [2, 12, 3, 3]);
    }

    #[test]
    fn batches_are_bounded_and_grouped_as_those_of_labelled_texts() {
        let texts: Vec<String> = (0..40).map(|i| "a".repeat(1 + i * i % 23)).collect();
        let all: Vec<_> = texts.iter().map(|text| ("b", text.as_str(), None)).collect();
        for batching in [Batching::Tokens(64), Batching::Grouped(4), Batching::Examples(4)] {
            let asking = Asking {
                max_length: 20,
                stride: 4,
                ..Asking::default()
            };
            let source =
                QuestionBatches::new(questions(&all), &tokenizer(), asking, batching, Order::Shuffled(1)).unwrap();
            let steps = 0..source.batches_per_epoch();
            let made: Vec<Batch> = steps.clone().map(|step| source.batch(step).unwrap()).collect();
            assert_eq!(made.iter().map(|batch| batch.examples).sum::<usize>(), source.windows());
            let width = |batch: &Batch| batch.get("tokens").unwrap().shape()[1];
            let largest = source.largest_layout(steps).map(|(_, tokens)| tokens);
            assert_eq!(largest, made.iter().map(width).max());
            assert!(batching != Batching::Tokens(64) || made.iter().all(|batch| batch.tokens <= 64));
        }
    }

    #[test]
    fn no_room_and_no_questions_are_told() {
        let new = |questions, max_length| {
            let asking = Asking {
                max_length,
                ..Asking::default()
            };
            let made = QuestionBatches::new(questions, &tokenizer(), asking, Batching::Examples(1), Order::InOrder);
            made.map(|_| ()).unwrap_err().to_string()
        };
        assert!(new(questions(&[]), 9).starts_with("there are no questions"));
        assert_eq!(
            new(questions(&[("a", "b", None)]), 4),
            "a length of 4 leaves no room for a question and its context beside 3 special tokens; raise data.max_length"
        );
    }
}
