//! Decoder-only language models: pre-norm Transformer blocks, causal attention, and a head over the vocabulary. All
//! share one body; a [`Decoder`] describes the differences, and each model has one in its own file.

use lessen_graph::Tensor;

use super::{BatchShape, Outputs, class_loss};
use crate::activation::Activation;
use crate::attention::{AttentionConfig, SharedAttention};
use crate::context::Cx;
use crate::init::Init;
use crate::layers::{
    Attend, attend, embedding, gpt2_linear, layer_norm, linear, merge_heads, plain_layer_norm, projection, rms_norm,
    split_heads,
};
use crate::loss::Loss;
use crate::observations::activate;
use crate::quantization::Quantization;

/// Description of a decoder-only language model.
#[derive(Clone, PartialEq, Debug)]
pub struct Decoder {
    pub(super) sizes: Sizes,
    pub(super) attention: AttentionConfig,
    pub(super) norm: Norm,
    /// Epsilon that norms add to the variance or to the mean square.
    pub(super) norm_eps: f64,
    pub(super) branches: Branches,
    pub(super) qkv: Qkv,
    /// Storage of the matrix that ends an attention.
    pub(super) attention_out: Linear,
    pub(super) mlp: Mlp,
    /// Storage of the matrices of the feed-forward layers.
    pub(super) mlp_linear: Linear,
    pub(super) activation: Activation,
    pub(super) dropout: Dropout,
    /// Initial values of matrices.
    pub(super) init: Init,
    /// Initial values of matrices that end a residual branch.
    pub(super) residual_init: Init,
    pub(super) head: Head,
    pub(super) names: Names,
    pub(super) loss: Loss,
    /// How its layers are quantized; none if they are not.
    pub(super) quantization: Option<Quantization>,
}

/// The extents of a decoder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sizes {
    pub(super) vocab: usize,
    /// Rows of the table of learned positions; it is read where positions are learned.
    pub(super) positions: usize,
    pub(super) width: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    /// Heads of keys and values.
    pub(super) kv_heads: usize,
    pub(super) head_width: usize,
    /// Width inside the feed-forward layers.
    pub(super) ffn: usize,
}

/// Norms of a decoder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Norm {
    Layer,
    /// LayerNorm without a scale and a shift.
    LayerWithoutParameters,
    Rms,
}

/// Inputs of the residual branches of a block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Branches {
    /// The feed-forward layers read what attention gives: `y = x + attention(norm(x))`, then `y + mlp(norm(y))`.
    Sequential,
    /// Attention and feed-forward layers read the block's input, each by a norm of its own:
    /// `x + attention(norm(x)) + mlp(norm(x))`.
    Parallel,
    /// Attention and feed-forward layers read the block's input by one norm, the first name of [`Names::norms`].
    ParallelWithOneNorm,
}

/// How a matrix is stored, and whether a bias is added to its product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Linear {
    /// As in GPT-2: `[in, out]`, with a bias.
    Gpt2,
    /// `[out, in]`, with a bias.
    Biased,
    /// `[out, in]`, without one.
    Plain,
}

/// The products of queries, keys and values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Qkv {
    /// One product of this name.
    Joined(&'static str, Linear),
    /// One product of this name, with the queries, keys and values of a head side by side: its rows are `[H, 3, D]`.
    JoinedByHead(&'static str, Linear),
    /// A product each for queries, keys and values, by name.
    Separate([&'static str; 3], Linear),
}

/// The feed-forward layers, by the names of their products.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Mlp {
    /// `down(activation(up(x)))`
    Plain { up: &'static str, down: &'static str },
    /// `down(activation(gate(x)) · up(x))` (Shazeer 2020); with SiLU it is SwiGLU.
    Gated {
        gate: &'static str,
        up: &'static str,
        down: &'static str,
    },
}

/// Dropout probabilities.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Dropout {
    pub(super) embeddings: f64,
    /// Of attention weights.
    pub(super) attention: f64,
    /// Of residual branches.
    pub(super) residual: f64,
}

/// The names of parameters and their scopes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Names {
    /// The scope of all parameters but a head of its own.
    pub(super) body: &'static str,
    pub(super) words: &'static str,
    pub(super) positions: &'static str,
    pub(super) layers: &'static str,
    pub(super) attention: &'static str,
    /// The product that ends an attention.
    pub(super) attention_out: &'static str,
    pub(super) mlp: &'static str,
    /// The norms before attention and feed-forward layers, and the last one.
    pub(super) norms: [&'static str; 3],
    pub(super) head: &'static str,
}

/// The product with the vocabulary.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Head {
    /// Whether its matrix is the table of token embeddings.
    pub(super) tied: bool,
    pub(super) biased: bool,
}

/// The tokens that a decoder reads.
#[derive(Clone, Copy)]
pub(super) enum Reads {
    /// The sequences of a batch.
    Batch(BatchShape),
    /// One token of each sequence, for a number of sequences: the data input `tokens` (`i32[B, 1]`), at positions
    /// (`i32[B]`).
    Token(usize, Tensor),
}

impl Reads {
    fn batch(self) -> BatchShape {
        match self {
            Reads::Batch(batch) => batch,
            Reads::Token(size, _) => BatchShape::Padded { size, length: 1 },
        }
    }
}

impl Decoder {
    /// Logits of the next token at every position, `f32[B, T, vocabulary]`. Declares `tokens` (`i32[B, T]`).
    ///
    /// # Panics
    /// If `T` is above the number of learned positions; see [`Model::check_length`](crate::Model::check_length).
    #[track_caller]
    pub fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor {
        let x = self.states(cx, batch);
        self.head(cx, x)
    }

    /// The hidden states after the last norm, `f32[B, T, width]`. Declares `tokens` (`i32[B, T]`).
    ///
    /// # Panics
    /// As [`Decoder::logits`].
    #[track_caller]
    pub fn states(&self, cx: Cx, batch: BatchShape) -> Tensor {
        self.hidden_states(cx, Reads::Batch(batch), |cx, _, [q, k, v], how| {
            attend(cx, q, k, v, how)
        })
    }

    /// Loss over `labels` (`i32[B, T]`): `labels[t]` is the token after `tokens[t]`, or -100 without a label. Whoever
    /// makes the batch shifts the labels; transformers does that inside the model.
    pub fn forward(&self, cx: Cx, batch: BatchShape) -> Outputs {
        let logits = self.logits(cx, batch);
        class_loss(cx, logits, batch.ids(cx, "labels"), None)
    }

    /// Embeddings, blocks and the final norm: `f32[B, T, width]`.
    ///
    /// `attend` takes the layer's index, queries, keys and values (`[B, T, H, D]`, queries and keys rotated where
    /// positions are rotary) and options: training attends to the whole text, generation to the key/value cache.
    pub(super) fn hidden_states(
        &self,
        cx: Cx,
        reads: Reads,
        attend: impl Fn(Cx, usize, [Tensor; 3], Attend) -> Tensor,
    ) -> Tensor {
        let (batch, names) = (reads.batch(), &self.names);
        let cx = cx.with_quantization(self.quantization.as_ref());
        cx.scope(names.body, |cx| {
            let x = self.embeddings(cx, reads);
            let shared = SharedAttention::new(cx, self.attention, self.sizes.heads, batch);
            let shared = match reads {
                Reads::Batch(_) => shared,
                Reads::Token(_, positions) => shared.from(positions),
            };
            let x = (0..self.sizes.layers).fold(cx.dropout(x, self.dropout.embeddings), |x, i| {
                cx.scope(&format!("{}.{i}", names.layers), |cx| {
                    self.block(cx, (x, batch), shared, |cx, qkv, how| attend(cx, i, qkv, how))
                })
            });
            self.norm(cx, names.norms[2], x)
        })
    }

    fn embeddings(&self, cx: Cx, reads: Reads) -> Tensor {
        let Sizes {
            vocab,
            positions,
            width,
            ..
        } = self.sizes;
        let (table, name) = ((positions, width), self.names.positions);
        let places = self.attention.position.is_limited().then(|| match reads {
            Reads::Batch(batch) => batch.position_embeddings(cx, name, table, self.init),
            Reads::Token(_, at) => embedding(cx, name, at, table, self.init).unsqueeze(1),
        });
        let tokens = reads.batch().ids(cx, "tokens");
        let words = embedding(cx, self.names.words, tokens, (vocab, width), self.init);
        places.map_or(words, |places| words + places)
    }

    fn block(
        &self,
        cx: Cx,
        (x, batch): (Tensor, BatchShape),
        shared: SharedAttention,
        attend: impl FnOnce(Cx, [Tensor; 3], Attend) -> Tensor,
    ) -> Tensor {
        let (names, width) = (&self.names, self.sizes.width);
        let h = self.norm(cx, names.norms[0], x);
        let y = cx.scope(names.attention, |cx| {
            let [q, k, v] = self.queries_keys_values(cx, h);
            let how = Attend {
                causal: true,
                dropout: self.dropout.attention,
                ..Attend::default()
            };
            let how = shared.of_layer(cx, how);
            let y = attend(cx, [how.rotate(q), how.rotate(k), v], how);
            self.attention_out
                .apply(cx, names.attention_out, merge_heads(y), width, self.residual_init)
        });
        let attended = x + cx.dropout(y, self.dropout.residual);

        let h = match self.branches {
            Branches::Sequential => self.norm(cx, names.norms[1], attended),
            Branches::Parallel => self.norm(cx, names.norms[1], x),
            Branches::ParallelWithOneNorm => h,
        };
        let y = cx.scope(names.mlp, |cx| self.feed_forward(cx, h, batch));
        attended + cx.dropout(y, self.dropout.residual)
    }

    /// Heads of queries, keys and values, `[B, T, H, D]`.
    fn queries_keys_values(&self, cx: Cx, h: Tensor) -> [Tensor; 3] {
        let Sizes {
            heads,
            kv_heads,
            head_width,
            ..
        } = self.sizes;
        let heads = [heads, kv_heads, kv_heads];
        let widths = heads.map(|heads| heads * head_width);
        let parts = match self.qkv {
            Qkv::JoinedByHead(name, linear) => {
                let joined = linear.apply(cx, name, h, widths.iter().sum(), self.init);
                let parts = split_heads(joined, heads[0]).split(-1, &[head_width; 3]);
                return [parts[0], parts[1], parts[2]];
            }
            Qkv::Joined(name, linear) => linear
                .apply(cx, name, h, widths.iter().sum(), self.init)
                .split(-1, &widths),
            Qkv::Separate(names, linear) => {
                let part = |i: usize| linear.apply(cx, names[i], h, widths[i], self.init);
                vec![part(0), part(1), part(2)]
            }
        };
        [0, 1, 2].map(|i| split_heads(parts[i], heads[i]))
    }

    fn feed_forward(&self, cx: Cx, h: Tensor, batch: BatchShape) -> Tensor {
        let Sizes { width, ffn, .. } = self.sizes;
        let product = |name: &str| self.mlp_linear.apply(cx, name, h, ffn, self.init);
        let active = |x: Tensor| activate(cx, self.activation, x, |cx| batch.in_segments(cx));
        let (inner, down) = match self.mlp {
            Mlp::Plain { up, down } => (active(product(up)), down),
            Mlp::Gated { gate, up, down } => (active(product(gate)) * product(up), down),
        };
        self.mlp_linear.apply(cx, down, inner, width, self.residual_init)
    }

    fn norm(&self, cx: Cx, name: &str, x: Tensor) -> Tensor {
        match self.norm {
            Norm::Layer => layer_norm(cx, name, x, self.norm_eps),
            Norm::LayerWithoutParameters => cx.trace().in_scope(name, || plain_layer_norm(x, self.norm_eps)),
            Norm::Rms => rms_norm(cx, name, x, self.norm_eps),
        }
    }

    /// Logits of the next token, `[.., vocabulary]`, from hidden states `[.., width]`.
    pub(super) fn head(&self, cx: Cx, x: Tensor) -> Tensor {
        let Sizes { vocab, width, .. } = self.sizes;
        let (Names { body, words, head, .. }, Head { tied, biased }) = (self.names, self.head);
        let matrix = if tied {
            format!("{body}.{words}.weight")
        } else {
            format!("{head}.weight")
        };
        let weight = cx.param(&matrix, &[vocab, width], self.init);
        let bias = biased.then(|| cx.param(&format!("{head}.bias"), &[vocab], Init::Zeros));
        cx.trace().in_scope(head, || {
            let logits = x.matmul_t(weight);
            self.loss.normalize(bias.map_or(logits, |bias| logits + bias))
        })
    }
}

impl Linear {
    fn apply(self, cx: Cx, name: &str, x: Tensor, out: usize, init: Init) -> Tensor {
        match self {
            Linear::Gpt2 => gpt2_linear(cx, name, x, out, init),
            Linear::Biased => linear(cx, name, x, out, init),
            Linear::Plain => projection(cx, name, x, out, init),
        }
    }
}
