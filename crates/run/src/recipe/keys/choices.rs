//! The words that keys take.

use crate::recipe::words::{Word, words};
use lessen_compile::{CostSource, Placement, Precision};
use lessen_condense::{Level, Method, Start};
use lessen_data::{Documents, Problem};
use lessen_nn::checkpoint::WeightDtype;
use lessen_nn::layers::Spread;
use lessen_nn::models::vision::Network;
use lessen_nn::{LrScheduleKind, NormKind, Position};
use lessen_search::{CostGradient, CostKind};

words! {
    /// The optimizers.
    pub enum OptimizerKind {
        /// AdamW (Loshchilov and Hutter 2019).
        Adamw = "adamw",
        /// AdamW with 8-bit moments (Dettmers et al. 2022).
        Adamw8bit = "adamw_8bit",
        /// Adam (Kingma and Ba 2015).
        Adam = "adam",
        /// Stochastic gradient descent with momentum.
        Sgd = "sgd",
        /// Adagrad (Duchi, Hazan and Singer 2011).
        Adagrad = "adagrad",
        /// Adadelta (Zeiler 2012).
        Adadelta = "adadelta",
        /// RMSprop (Tieleman and Hinton 2012).
        Rmsprop = "rmsprop",
        /// Lion (Chen et al. 2023).
        Lion = "lion",
        /// Adafactor (Shazeer and Stern 2018).
        Adafactor = "adafactor",
    }
}

words! {
    /// Which batches statistics are recorded on.
    pub enum RecordSplit {
        /// That of the step to come, with its dropout.
        Train = "train",
        /// The first one of the split `dev`, without dropout.
        Dev = "dev",
        /// Both of them.
        Both = "both",
    }
}

words!(LrScheduleKind {
    Constant = "constant",
    Linear = "linear",
    Cosine = "cosine",
    OneCycle = "one-cycle",
});

words!(Documents {
    Off = "off",
    Files = "files",
    Lines = "lines",
    Paragraphs = "paragraphs",
    Marked = "marked",
});

words!(Problem {
    SingleLabel = "single_label_classification",
    MultiLabel = "multi_label_classification",
    Regression = "regression",
});

words!(Position {
    Learned = "learned",
    None = "none",
    Rope = "rope",
    Alibi = "alibi",
    Fire = "fire",
});

words!(NormKind {
    Layer = "layer",
    Rms = "rms",
    Crms = "crms",
    Auto = "auto",
});

words!(Spread {
    Variance = "variance",
    Range = "range",
});

words!(WeightDtype {
    F32 = "f32",
    Bf16 = "bf16",
    F16 = "f16",
});

words!(CostSource {
    Analytic = "analytic",
    Measured = "measured",
});

/// The precisions of training; codes of 8 and 4 bits are for inference.
impl Word for Precision {
    const WORDS: &'static [&'static str] = &["f32", "bf16"];

    fn word(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
            Precision::Int4 => "int4",
        }
    }

    fn from_word(word: &str) -> Option<Precision> {
        match word {
            "f32" => Some(Precision::F32),
            "bf16" => Some(Precision::Bf16),
            _ => None,
        }
    }
}

words!(Placement {
    Separate = "separate",
    BackwardFused = "backward-fused",
    ForwardFused = "forward-fused",
    Planned = "planned",
});

/// Words of enumerations that say them themselves.
macro_rules! own_words {
    ($($name:ty: $words:expr, $word:expr, $of:expr;)*) => {
        $(impl Word for $name {
            const WORDS: &'static [&'static str] = $words;

            fn word(self) -> &'static str {
                $word(self)
            }

            fn from_word(word: &str) -> Option<$name> {
                $of(word)
            }
        })*
    };
}

own_words! {
    Network: &Network::NAMES, Network::name, Network::of;
    Method: Method::WORDS, Method::word, |word: &str| word.parse().ok();
    Level: Level::WORDS, Level::word, |word: &str| word.parse().ok();
    Start: Start::WORDS, Start::word, |word: &str| word.parse().ok();
}

words! {
    /// The spaces of searches.
    pub enum SpaceKind {
        /// For images of 224 pixels.
        Imagenet = "imagenet",
        /// For images of CIFAR: the first two convolutions of stride 2 have none.
        Cifar = "cifar",
    }
}

words! {
    /// What is searched, and how.
    pub enum SearchMethod {
        /// Architecture and bits together, by a supernet.
        Joint = "joint",
        /// The architecture alone, with the same bits everywhere.
        Architecture = "architecture",
        /// The bits of a network, exactly by measured sensitivities.
        Allocation = "allocation",
        /// The bits of a network, by reinforcement learning.
        Haq = "haq",
    }
}

words!(CostKind {
    Energy = "energy",
    Latency = "latency",
    Size = "size",
});

words!(CostGradient {
    Reinforce = "reinforce",
    Exact = "exact",
});
