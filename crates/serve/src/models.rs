//! Models as the threads of servers ask them.

use crate::texts::{EncodedText, TextModel};
use lessen_base::Result;
use lessen_data::TextPair;
use lessen_run::saved_run::{BatchedPredictor, ROOM, RawAnswer};

impl TextModel for BatchedPredictor<'_> {
    type Answer = RawAnswer;

    fn max_length(&self) -> usize {
        BatchedPredictor::max_length(self)
    }

    fn tokens(&self) -> usize {
        BatchedPredictor::tokens(self)
    }

    fn room(&self) -> usize {
        ROOM
    }

    fn encode(&self, text: &TextPair, most: usize) -> Result<EncodedText> {
        BatchedPredictor::encode(self, text, most)
    }

    fn ask(&mut self, texts: &[&EncodedText]) -> Result<Vec<RawAnswer>> {
        BatchedPredictor::ask(self, texts)
    }
}
