//! Questions about texts.

use std::sync::Arc;

/// An answer as data gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenAnswer {
    /// The answer, which its context has.
    pub text: String,
    /// The byte of the context at which it begins.
    pub start: usize,
}

/// A question about a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What tells it from others.
    pub id: String,
    /// The question.
    pub text: String,
    /// The number of its context.
    pub context: usize,
    /// The right answers, each as good as the others; none where the context has none, or none is known.
    pub answers: Vec<GivenAnswer>,
    /// Whether it is known that the context has no answer.
    pub is_impossible: bool,
}

/// One split: contexts and questions about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    contexts: Vec<Arc<str>>,
    questions: Vec<Question>,
}

impl Questions {
    /// Makes a split of questions with a context each, whose answers are not known; ids are their numbers.
    pub fn unanswered<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Questions {
        let mut all = Questions::default();
        for (number, (question, context)) in pairs.into_iter().enumerate() {
            let context = match all.contexts.last() {
                Some(last) if **last == *context => all.contexts.len() - 1,
                _ => all.add_context(context.to_string()),
            };
            all.add(Question {
                id: number.to_string(),
                text: question.to_string(),
                context,
                answers: Vec::new(),
                is_impossible: false,
            });
        }
        all
    }

    /// Adds a context; returns its number.
    pub fn add_context(&mut self, context: String) -> usize {
        self.contexts.push(context.into());
        self.contexts.len() - 1
    }

    /// Adds a question.
    ///
    /// # Panics
    /// If there is no such context.
    pub fn add(&mut self, question: Question) {
        assert!(question.context < self.contexts.len(), "a context for the question");
        self.questions.push(question);
    }

    /// Returns the number of questions.
    pub fn len(&self) -> usize {
        self.questions.len()
    }

    /// Whether there are no questions.
    pub fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// Returns the contexts.
    pub fn contexts(&self) -> &[Arc<str>] {
        &self.contexts
    }

    /// Iterates over the questions in order.
    pub fn iter(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter()
    }

    /// Returns a question.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn question(&self, number: usize) -> &Question {
        &self.questions[number]
    }

    /// Whether some questions have no answer, as in SQuAD 2.0.
    pub fn has_unanswerable(&self) -> bool {
        let is_answered = self.questions.iter().any(|question| !question.answers.is_empty());
        let has_none = |question: &Question| question.is_impossible || (is_answered && question.answers.is_empty());
        self.questions.iter().any(has_none)
    }

    /// The questions about contexts that are not chosen, and the questions about chosen ones.
    pub(crate) fn divided(&self, chosen: &[bool]) -> (Questions, Questions) {
        let of = |wanted: bool| {
            let mut part = Questions::default();
            let mut numbers = vec![0; self.contexts.len()];
            for (number, context) in self.contexts.iter().enumerate().filter(|(n, _)| chosen[*n] == wanted) {
                numbers[number] = part.contexts.len();
                part.contexts.push(context.clone());
            }
            let own = self
                .questions
                .iter()
                .filter(|question| chosen[question.context] == wanted);
            part.questions.extend(own.cloned().map(|question| Question {
                context: numbers[question.context],
                ..question
            }));
            part
        };
        (of(false), of(true))
    }
}

impl<'a> IntoIterator for &'a Questions {
    type Item = &'a Question;
    type IntoIter = std::slice::Iter<'a, Question>;

    fn into_iter(self) -> Self::IntoIter {
        self.questions.iter()
    }
}
