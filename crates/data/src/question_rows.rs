//! Rows of windows of questions without padding.

use lessen_base::Result;

use crate::batch::{Batch, Field, IGNORE};
use crate::batching::{Batches, Members};
use crate::packed_texts::{PackedTexts, Turn};
use crate::packing::Row;
use crate::question_batches::{QuestionBatches, Window};
use crate::tokenizer::AroundPair;

impl QuestionBatches {
    /// The windows of an evaluation batch.
    pub(crate) fn windows_of(&self, index: u64) -> Vec<&Window> {
        self.texts_of(index)
            .iter()
            .map(|window| &self.windows[window])
            .collect()
    }

    /// For how many windows an evaluation batch has room.
    pub(crate) fn rows(&self, index: u64) -> usize {
        self.layout(&self.texts_of(index), Turn::Evaluation(index))[0]
    }
}

impl PackedTexts for QuestionBatches {
    fn batches(&self) -> &Batches {
        &self.batches
    }

    fn tokens_of(&self, text: usize) -> usize {
        self.length(&self.windows[text])
    }

    fn unknown(&self) -> Option<(u64, u64)> {
        self.unknown
    }

    fn cut(&self) -> Option<(u64, u64)> {
        Some((self.cut, self.asked().len() as u64))
    }

    fn collect(&self, texts: &Members, turn: Turn) -> Result<Batch> {
        let (examples, real) = (texts.len(), self.tokens_of_all(texts));
        let [size, tokens] = self.layout(texts, turn);
        let mut row = Row::new([size, tokens], real, self.pad);
        let (mut answers, mut start) = (vec![IGNORE; 2 * size], 0);
        let AroundPair {
            before,
            between,
            after,
            types: kinds,
        } = &self.around;
        for (place, window) in texts.iter().map(|window| &self.windows[window]).enumerate() {
            let (question, context) = (&self.asked[window.question], &self.ids[window.context.clone()]);
            let (tokens, types) = row.add(self.length(window));
            let parts = [before, question, between, context, after];
            let mut rest = 0..0;
            for (part, kinds) in parts.into_iter().zip(kinds) {
                rest = rest.end..rest.end + part.len();
                tokens[rest.clone()].copy_from_slice(part);
                // A text has one type; each special token its own.
                let kinds = kinds.iter().chain(std::iter::repeat(kinds.last().unwrap_or(&0)));
                types[rest.clone()]
                    .iter_mut()
                    .zip(kinds)
                    .for_each(|(place, kind)| *place = *kind);
            }
            answers[place] = (start + window.answer.0) as i32;
            answers[size + place] = (start + window.answer.1) as i32;
            start += rest.end;
        }
        let mut fields = row.into_fields();
        fields.push(("answers".into(), Field::i32([2, size], answers)));
        Ok(Batch {
            fields,
            examples,
            tokens: real,
        })
    }

    fn as_questions(&self) -> Option<&QuestionBatches> {
        Some(self)
    }
}
