//! The encoder that all families and heads have.

use lessen_graph::Tensor;

use super::config::BertConfig;
use crate::attention::SharedAttention;
use crate::batch::BatchShape;
use crate::context::Cx;
use crate::counted_positions;
use crate::layers::{Attend, RelativeBias, embedding, layer_norm, linear, multi_head};
use crate::observations::activate;

/// The hidden states of the last layer, `f32[B, T, hidden_size]`. Declares `tokens` (`i32[B, T]`), token types `types`
/// (`i32[B, T]`: 0 for the first text, 1 for the second) where the model has several, and what [`BatchShape`] says.
///
/// # Panics
/// If `T` is above the number of positions; see [`Model::check_length`](crate::Model::check_length).
#[track_caller]
pub fn bert(cx: Cx, c: &BertConfig, batch: BatchShape) -> Tensor {
    let description = c.family.description();
    let x = cx.scope("embeddings", |cx| embeddings(cx, c, batch));
    let stack = cx.at(description.stack);
    let shared = SharedAttention::new(stack, c.attention, c.num_attention_heads, batch)
        .with_relative(relative_bias(stack, c, batch));
    (0..c.num_hidden_layers).fold(x, |x, i| {
        cx.scope(&format!("{}.{i}", description.layer.layers), |cx| {
            layer(cx, c, x, batch, shared)
        })
    })
}

/// The bias of scores by distance, where the family has one and positions are learned.
fn relative_bias(cx: Cx, c: &BertConfig, batch: BatchShape) -> Option<RelativeBias> {
    let name = c.family.description().relative_bias?;
    if !c.attention.position.is_limited() {
        return None;
    }
    let shape = [c.relative_attention_num_buckets, c.num_attention_heads];
    let table = cx.scope(name, |cx| cx.param("weight", &shape, c.weight()));
    let [_, tokens] = batch.tokens();
    let longest = tokens.min(c.max_position_embeddings - c.first_position());
    let head_width = c.hidden_size / c.num_attention_heads;
    Some(RelativeBias::new(table, head_width, batch.positions(cx), longest))
}

fn embeddings(cx: Cx, c: &BertConfig, batch: BatchShape) -> Tensor {
    let table = |rows| (rows, c.hidden_size);
    let tokens = batch.ids(cx, "tokens");
    let types = (c.type_vocab_size > 1).then(|| batch.ids(cx, "types"));
    let x = embedding(cx, "word_embeddings", tokens, table(c.vocab_size), c.weight());
    let name = "token_type_embeddings";
    let x = match types {
        Some(types) => x + embedding(cx, name, types, table(c.type_vocab_size), c.weight()),
        None if c.type_vocab_size == 1 => {
            let shape = [1, c.hidden_size];
            x + cx.scope(name, |cx| {
                cx.param("weight", &shape, c.weight()).reshape(&[c.hidden_size])
            })
        }
        None => x,
    };
    let (name, rows) = ("position_embeddings", table(c.max_position_embeddings));
    let x = if !c.attention.position.is_limited() {
        x
    } else if let Some(uncounted) = c.uncounted_token() {
        let counted = counted_positions::rows(batch, cx, tokens, uncounted);
        x + embedding(cx, name, counted, rows, c.weight())
    } else {
        x + batch.position_embeddings(cx, name, rows, c.weight())
    };
    let x = layer_norm(cx, "LayerNorm", x, c.layer_norm_eps);
    cx.dropout(x, c.hidden_dropout_prob)
}

fn layer(cx: Cx, c: &BertConfig, x: Tensor, batch: BatchShape, shared: SharedAttention) -> Tensor {
    let description = c.family.description();
    let names = &description.layer;
    let projections = [names.query, names.key, names.value];
    let [q, k, v] = projections.map(|name| linear(cx, name, x, c.hidden_size, c.weight()));
    let y = cx.scope(place(names.query), |cx| {
        let how = Attend {
            mask: batch.mask(cx),
            dropout: c.attention_probs_dropout_prob,
            ..Attend::default()
        };
        multi_head(cx, q, k, v, shared.of_layer(cx, how))
    });
    let dropout = if description.attention_output_dropout {
        c.hidden_dropout_prob
    } else {
        0.0
    };
    let x = add_and_norm(cx, c, x, y, (names.attention_output, names.attention_norm), dropout);
    let y = linear(cx, names.up, x, c.intermediate_size, c.weight());
    let y = activate(cx.at(place(names.up)), c.hidden_act, y, |cx| batch.real(cx));
    add_and_norm(cx, c, x, y, (names.down, names.output_norm), c.hidden_dropout_prob)
}

/// `LayerNorm(x + dropout(dense(y)))`
fn add_and_norm(cx: Cx, c: &BertConfig, x: Tensor, y: Tensor, (dense, norm): (&str, &str), dropout: f64) -> Tensor {
    let y = linear(cx, dense, y, c.hidden_size, c.weight());
    let sum = cx.trace().in_scope(place(norm), || x + cx.dropout(y, dropout));
    layer_norm(cx, norm, sum, c.layer_norm_eps)
}

/// First part of a parameter's name: the name of the part of the model that it belongs to.
pub(super) fn place(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(place, _)| place)
}
