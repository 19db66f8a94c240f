//! The words of `model.kind`.

use lessen_base::{word::Word, words};
use lessen_nn::models::vision::Network;
use std::fmt;

/// Calls a macro with the lines of all Transformers: each has its word and its implementation in
/// [`models`](crate::models).
macro_rules! transformers {
    ($with:ident) => {
        $with! {
            /// A language model.
            Gpt2 = "gpt2": gpt2::Gpt2;
            /// A language model with RMSNorm, rotary positions, SwiGLU and grouped queries.
            Llama = "llama": llama::Llama;
            /// A language model with rotary positions, whose attention and feed-forward layers read the same.
            GptNeox = "gpt_neox": gpt_neox::GptNeox;
            /// The same with one norm for both.
            Gptj = "gptj": gptj::Gptj;
            /// A classifier or masked language model, post-LN, as in transformers.
            Bert = "bert": bert::Encoders(Family::Bert);
            /// The same without token types.
            Roberta = "roberta": bert::Encoders(Family::Roberta);
            /// The same without token types and pooler.
            DistilBert = "distilbert": bert::Encoders(Family::DistilBert);
            /// The same without token types and pooler, and with biases of attention scores by distance.
            MPNet = "mpnet": bert::Encoders(Family::MPNet);
            /// A small pre-LN classifier with mean pooling.
            Encoder = "encoder": encoder::SmallEncoder;
            /// A linear classifier over tokens and pairs of tokens that follow each other.
            Linear = "linear": linear::Linear;
            /// A classifier of images, a pre-LN encoder of their patches.
            Vit = "vit": vit::Patches(VitFamily::Vit);
            /// The same with a second learned token.
            Deit = "deit": vit::Patches(VitFamily::Deit);
        }
    };
}

macro_rules! enumeration {
    ($($(#[$doc:meta])* $variant:ident = $word:literal: $family:expr;)*) => {
        words! {
            /// The Transformers.
            pub enum Transformer {
                $($(#[$doc])* $variant = $word,)*
            }
        }
    };
}

transformers!(enumeration);

pub(crate) use transformers;

/// The architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// A Transformer, whose sizes are keys.
    Transformer(Transformer),
    /// A convolutional network for images, whose name says everything.
    Network(Network),
}

/// The words of Transformers, then the names of networks.
const WORDS: [&str; Transformer::WORDS.len() + Network::NAMES.len()] = {
    let first = Transformer::WORDS.len();
    let mut words = [""; Transformer::WORDS.len() + Network::NAMES.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = if at < first {
            Transformer::WORDS[at]
        } else {
            Network::NAMES[at - first]
        };
        at += 1;
    }
    words
};

impl Word for ModelKind {
    const WORDS: &'static [&'static str] = &WORDS;

    fn word(self) -> &'static str {
        match self {
            ModelKind::Transformer(kind) => kind.word(),
            ModelKind::Network(network) => network.name(),
        }
    }

    fn from_word(word: &str) -> Option<ModelKind> {
        let transformer = Transformer::from_word(word).map(ModelKind::Transformer);
        transformer.or_else(|| Network::of(word).map(ModelKind::Network))
    }
}

impl From<Transformer> for ModelKind {
    fn from(kind: Transformer) -> ModelKind {
        ModelKind::Transformer(kind)
    }
}

impl fmt::Display for ModelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_stands_for_a_kind() {
        for word in ModelKind::WORDS {
            assert_eq!(ModelKind::from_word(word).map(Word::word), Some(*word));
        }
        assert_eq!(ModelKind::from_word("resnet21"), None);
    }
}
