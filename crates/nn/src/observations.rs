//! Observed values of activations and of attention.

use lessen_graph::Tensor;
use lessen_graph::ops::attention::{AttentionOptions, AttentionSizes};

use crate::activation::Activation;
use crate::context::Cx;
use crate::statistics::Statistic;

/// The label of a row without a label, as [`Tensor::cross_entropy`] has it.
pub(crate) const NO_LABEL: f64 = -100.0;

/// Limit of the scores whose statistics are recorded in one attention; a single sequence may have more.
const MOST_SCORES: usize = 1 << 22;

/// Applies an activation to `x`, `[B, T, W]`, which is observed as `pre_activation` where `seen` (`bool[B, T]`), if it
/// returns anything, is true. With HeLU `only_helu_learns` is the share of elements whose derivative is 1 though ReLU's
/// is 0.
#[track_caller]
pub(crate) fn activate(cx: Cx, activation: Activation, x: Tensor, seen: impl FnOnce(Cx) -> Option<Tensor>) -> Tensor {
    if cx.observes("pre_activation") {
        let mut statistics = vec![Statistic::Summary, Statistic::Histogram];
        if let Activation::Helu(alpha) = activation {
            statistics.push(Statistic::Share {
                name: "only_helu_learns",
                above: -alpha,
                up_to: 0.0,
            });
        }
        cx.observe_where(
            "pre_activation",
            &statistics,
            x,
            seen(cx).map(|seen| seen.unsqueeze(-1)),
        );
    }
    activation.apply(x)
}

/// Observes values that an attention computes: `attention_scores`, the scores of the keys that queries see, and
/// `attention_weights`, the weights that follow from these scores, before dropout. Queries at padding positions do not
/// count. The scores are formed in the graph only where they are recorded: of as many sequences of the batch as have at
/// most [`MOST_SCORES`] scores together, but of one sequence at least; in a batch without padding, of
/// the first tokens that have at most as many scores together.
#[track_caller]
pub(crate) fn attention(cx: Cx, q: Tensor, k: Tensor, options: AttentionOptions) {
    let observed = ["attention_scores", "attention_weights"].map(|name| cx.observes(name));
    let sizes = AttentionSizes::of(&q.ty(), &k.ty(), &k.ty());
    if observed == [false; 2] || sizes.scores() == 0 {
        return;
    }
    let sequences = (MOST_SCORES / (sizes.scores() / sizes.batch)).clamp(1, sizes.batch);
    let few = |x: Tensor| x.slice(0, 0, sequences);
    let tokens = (MOST_SCORES / sizes.heads).isqrt().clamp(1, sizes.queries);
    let few_tokens = |x: Tensor| match options.starts {
        Some(_) => x.slice(1, 0, tokens),
        None => few(x),
    };
    let (q, k) = (few_tokens(q), few_tokens(k));
    let mask = options.mask.map(few);
    let offset = options
        .offset
        .map(|offset| if offset.shape().is_empty() { offset } else { few(offset) });
    let starts = options
        .starts
        .map(|starts| starts.minimum(starts.scalar_like(tokens as f64)));
    let scores = AttentionOptions {
        mask,
        starts,
        offset,
        dropout: None,
        ..options
    }
    .scores(q, k);
    let queries = mask.filter(|_| sizes.queries == sizes.keys);
    let queries = queries.map(|mask| mask.reshape(&[sequences, 1, sizes.queries, 1]));
    let seen = match (scores.visible, queries) {
        (Some(visible), Some(queries)) => Some(visible.and(queries)),
        (visible, queries) => visible.or(queries),
    };
    let statistics = [Statistic::Summary, Statistic::Histogram, Statistic::RowDeviation];
    cx.observe_where("attention_scores", &statistics, scores.scores, seen);
    let statistics = [Statistic::Summary, Statistic::Histogram, Statistic::RowEntropy];
    cx.observe_where("attention_weights", &statistics, scores.weights().0, seen);
}

/// Observes the logits of a cross entropy, `[.., classes]`, as `logits`, and their softmax as `probabilities`, where
/// `counts` (`bool[..]`) says that a row counts in the loss.
#[track_caller]
pub(crate) fn logits(cx: Cx, logits: Tensor, counts: impl FnOnce() -> Tensor) {
    if [cx.observes("logits"), cx.observes("probabilities")] == [false; 2] {
        return;
    }
    let seen = Some(counts().unsqueeze(-1));
    let statistics = [Statistic::Summary, Statistic::Histogram, Statistic::RowDeviation];
    cx.observe_where("logits", &statistics, logits, seen);
    cx.observe_where("probabilities", &[Statistic::RowEntropy], logits.softmax(), seen);
}
