//! Models as the threads of servers ask them.

use crate::texts::TextModel;
use lessen_base::Result;
use lessen_data::{EncodedText, TextPair};
use lessen_saved::embedding::JoinedEmbedder;
use lessen_saved::saved_run::{BatchedPredictor, ROOM, RawAnswer};

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

    fn ask(&mut self, texts: &[&EncodedText]) -> Result<Vec<Result<RawAnswer>>> {
        BatchedPredictor::ask(self, texts)
    }
}

impl TextModel for JoinedEmbedder {
    type Answer = Vec<f32>;

    fn max_length(&self) -> usize {
        self.embedder().max_length()
    }

    fn tokens(&self) -> usize {
        JoinedEmbedder::tokens(self)
    }

    fn room(&self) -> usize {
        JoinedEmbedder::ROOM
    }

    fn encode(&self, (text, _): &TextPair, most: usize) -> Result<EncodedText> {
        JoinedEmbedder::encode(self, text, most)
    }

    fn ask(&mut self, texts: &[&EncodedText]) -> Result<Vec<Result<Vec<f32>>>> {
        self.embed(texts)
    }
}
