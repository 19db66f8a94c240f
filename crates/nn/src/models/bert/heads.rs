//! Heads of the encoder.

use lessen_graph::Tensor;

use super::config::BertConfig;
use super::encoder::place;
use crate::batch::BatchShape;
use crate::context::Cx;
use crate::init::Init;
use crate::layers::{layer_norm, linear};
use crate::observations::activate;

/// The logit of a place where no answer can be.
const NOWHERE: f64 = -1e9;

/// Logits of the classes of texts, `f32[B, classes]`, from the states of all tokens.
#[track_caller]
pub(super) fn classes_of_texts(cx: Cx, c: &BertConfig, batch: BatchShape, states: Tensor) -> Tensor {
    let names = &c.family.description().classifier;
    let p = c.classifier_dropout.unwrap_or(c.hidden_dropout_prob);
    let first = batch.first(cx, states);
    let first = if names.dropout_before {
        cx.dropout(first, p)
    } else {
        first
    };
    let pooled = linear(cx, names.dense, first, c.hidden_size, c.weight());
    let seen = |cx: Cx| batch.not_empty(cx);
    let pooled = activate(cx.at(place(names.dense)), names.activation, pooled, seen);
    let pooled = cx.dropout(pooled, p);
    c.loss
        .normalize(linear(cx, names.classes, pooled, c.labels.len(), c.weight()))
}

/// Logits of the classes of all tokens, `f32[.., classes]`.
#[track_caller]
pub(super) fn classes_of_tokens(cx: Cx, c: &BertConfig, states: Tensor) -> Tensor {
    let own = c
        .classifier_dropout
        .filter(|_| c.family.description().classifier_dropout_of_tokens);
    let states = cx.dropout(states, own.unwrap_or(c.hidden_dropout_prob));
    c.loss
        .normalize(linear(cx, "classifier", states, c.labels.len(), c.weight()))
}

/// Logits of the first and the last token of answers, `f32[2, B, T]` or `f32[2, B, N]`; [`NOWHERE`] at tokens that are
/// not of the text, where an answer cannot be. (transformers counts padding among the places.)
#[track_caller]
pub(super) fn answers(cx: Cx, c: &BertConfig, batch: BatchShape, states: Tensor) -> Tensor {
    let states = cx.dropout(states, c.qa_dropout);
    let logits = linear(cx, "qa_outputs", states, 2, c.weight());
    let [rows, tokens] = batch.tokens();
    let logits = logits.permute(&[2, 0, 1]).reshape(&[2, rows, tokens]);
    let logits = logits.broadcast_to(&[2, batch.size(), tokens]);
    let inside = batch.own_tokens(cx).broadcast_to(&[2, batch.size(), tokens]);
    inside.select(logits, logits.scalar_like(NOWHERE))
}

/// Logits of the vocabulary, `f32[.., vocab_size]`, at all tokens, or at the masked ones of a batch that names them.
/// The matrix is that of the word embeddings.
#[track_caller]
pub(super) fn masked_tokens(cx: Cx, c: &BertConfig, batch: BatchShape, states: Tensor) -> Tensor {
    let description = c.family.description();
    let names = &description.masked;
    let x = batch.masked(cx, states);
    let words = cx.param(&description.words(), &[c.vocab_size, c.hidden_size], c.weight());
    let x = linear(cx, names.dense, x, c.hidden_size, c.weight());
    let activation = names.activation.unwrap_or(c.hidden_act);
    let x = activate(cx.at(place(names.dense)), activation, x, |cx| batch.predicted(cx));
    let x = layer_norm(cx, names.norm, x, c.layer_norm_eps);
    cx.trace().in_scope(place(names.bias), || {
        c.loss
            .normalize(x.matmul_t(words) + cx.param(names.bias, &[c.vocab_size], Init::Zeros))
    })
}
