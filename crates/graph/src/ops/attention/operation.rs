//! The operation of attention: its fields, its inputs and its type rule.

use lessen_base::{Error, Result};

use crate::op::{IndexInput, Role};
use crate::ops::attention::bias::{AttentionBias, Fire};
use crate::ops::attention::weighting::Weighting;
use crate::ops::rules::{arity, float, indexable, key, probability};
use crate::size::{checked_numel, checked_sum};
use crate::types::{DType, Type};

/// Inputs: `q[B, Tq, H, D]`, `k[B, Tk, G, D]`, `v[B, Tk, G, Dv]` (`G` divides `H`; head `h` of `q` reads head `h G / H`
/// of `k` and `v`), then the inputs that the fields ask for, in this order:
///
/// - `masked`: the mask `bool[B, Tk]`, true where the key may be attended to;
/// - `segmented`: `starts i32[S + 1]`, ascending. With `B = 1` and `Tq = Tk`, tokens `starts[s] .. starts[s + 1]` are
///   one sequence, and see no key of another one. Tokens outside of all sequences see no key;
/// - `placed`: `offset i32[]`, or `i32[B]` with one for each sequence, the position of the first query among the keys;
///   otherwise it is `Tk - Tq`;
/// - [`AttentionBias::Fire`]: its parameters in the order of [`Fire`];
/// - a learned [`Weighting::Norm`]: `weight[H]`;
/// - `p > 0`: the key `u32[2]` of dropout.
///
/// Outputs: `o[B, Tq, H, Dv]` and, where the weights are a softmax, `lse[B, H, Tq]` of the accumulator dtype of `q`.
///
/// With `s_ij = scale q_i · k_j + bias_h(p_i, j)` over the keys that query `i` sees and the weights `P_i` that
/// [`Weighting`] makes of them, `o_i = sum_j drop(P_ij) v_j`. The position `p_i` is `i` plus the offset; with
/// `segmented`, positions of queries and keys count from the start of their sequence. Causal: query `i` sees key `j` if
/// `j <= p_i`. A query that sees no key has `o = 0` and `lse = -inf`; `lse` is the logarithm of the sum of the powers
/// of the softmax's arguments. Dropout is that of [`Dropout`](crate::ops::Dropout) with the flat index `((b H + h) Tq +
/// i) Tk + j`, sequences `b` counted from `sequence` on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attention {
    /// How scores become weights.
    pub weighting: Weighting,
    /// Position bias of the scores.
    pub bias: AttentionBias,
    /// Whether a query sees no later key.
    pub causal: bool,
    /// Factor of the products of queries and keys.
    pub scale: f64,
    /// Probability that dropout makes an attention weight zero.
    pub p: f64,
    /// Stream of the dropout's random bits.
    pub stream: u32,
    /// Whether there is a mask among the inputs.
    pub masked: bool,
    /// Whether the starts of sequences that follow each other are among the inputs.
    pub segmented: bool,
    /// Whether the position of the first query is among the inputs, for all sequences or for each.
    pub placed: bool,
    /// The number of the first sequence, where these are sequences of a larger batch. Only dropout depends on it.
    pub sequence: usize,
}

named!("attention": Attention {
    weighting,
    bias,
    causal,
    scale,
    p,
    stream,
    masked,
    segmented,
    placed,
    sequence,
});

impl Default for Attention {
    /// Softmax of unscaled products, every query seeing every key.
    fn default() -> Attention {
        Attention {
            weighting: Weighting::Softmax,
            bias: AttentionBias::None,
            causal: false,
            scale: 1.0,
            p: 0.0,
            stream: 0,
            masked: false,
            segmented: false,
            placed: false,
            sequence: 0,
        }
    }
}

/// The extents of an attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttentionSizes {
    /// Sequences in the batch.
    pub batch: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Queries per sequence.
    pub queries: usize,
    /// Keys per sequence.
    pub keys: usize,
    /// Extent of a head of `q` and `k`.
    pub head: usize,
    /// Extent of a head of `v`.
    pub value: usize,
}

impl AttentionSizes {
    /// From the types of `q`, `k` and `v`.
    pub fn of(q: &Type, k: &Type, v: &Type) -> AttentionSizes {
        AttentionSizes {
            batch: q.shape[0],
            heads: q.shape[2],
            kv_heads: k.shape[2],
            queries: q.shape[1],
            keys: k.shape[1],
            head: q.shape[3],
            value: v.shape[3],
        }
    }

    /// Number of scores.
    pub fn scores(&self) -> usize {
        self.batch * self.heads * self.queries * self.keys
    }

    /// The head of keys and values that a head of queries reads.
    pub fn kv_head(&self, head: usize) -> usize {
        head * self.kv_heads / self.heads.max(1)
    }
}

/// The inputs after `q`, `k` and `v` that an attention has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Extras<T> {
    /// The mask of keys.
    pub mask: Option<T>,
    /// The starts of sequences.
    pub starts: Option<T>,
    /// The position of the first query.
    pub offset: Option<T>,
    /// The parameters of FIRE.
    pub fire: Option<Fire<T>>,
    /// The learned weights of heads.
    pub weight: Option<T>,
    /// The key of dropout.
    pub key: Option<T>,
}

impl Attention {
    /// Names the inputs after `q`, `k` and `v`, or the derivative's inputs after `do`.
    ///
    /// # Panics
    /// If there are fewer than the fields ask for.
    pub fn extras<T: Clone>(&self, rest: &[T]) -> Extras<T> {
        let mut rest = rest.iter().cloned();
        let mut next = || rest.next().expect("the type rule counts inputs");
        Extras {
            mask: self.masked.then(&mut next),
            starts: self.segmented.then(&mut next),
            offset: self.placed.then(&mut next),
            fire: self
                .has_fire()
                .then(|| Fire::from_array(std::array::from_fn(|_| next()))),
            weight: self.weighting.is_learned().then(&mut next),
            key: (self.p > 0.0).then(&mut next),
        }
    }

    /// The attention without the numbers that tell its random bits apart.
    pub(super) fn without_stream(&self) -> Attention {
        Attention {
            stream: 0,
            sequence: 0,
            ..*self
        }
    }

    /// The attention of slice `number` of the sequences, where sequences can be computed apart, and the roles of its
    /// inputs, with `between` others after `q`, `k` and `v`. With starts or offsets among the inputs they cannot.
    pub(super) fn on_slices(
        &self,
        (number, slices): (usize, usize),
        inputs: &[Type],
        between: usize,
    ) -> Option<(Attention, Vec<Role>)> {
        if self.segmented || self.placed {
            return None;
        }
        let mut roles = vec![Role::Rows; 3 + between + usize::from(self.masked)];
        roles.resize(3 + between + self.extra_count(), Role::Whole);
        let sequence = self.sequence + number * (inputs[0].shape[0] / slices);
        Some((Attention { sequence, ..*self }, roles))
    }

    pub(super) fn has_fire(&self) -> bool {
        self.bias == AttentionBias::Fire
    }

    fn extra_count(&self) -> usize {
        let flags = [
            self.masked,
            self.segmented,
            self.placed,
            self.weighting.is_learned(),
            self.p > 0.0,
        ];
        let fire = if self.has_fire() { Fire::<()>::COUNT } else { 0 };
        fire + flags.into_iter().filter(|&flag| flag).count()
    }

    /// Checks `q`, `k`, `v` and, after `between` other inputs, the rest; the types of the outputs.
    pub(super) fn check(&self, inputs: &[Type], between: usize) -> Result<Vec<Type>> {
        probability(self.p)?;
        self.weighting.check()?;
        arity(inputs, 3 + between + self.extra_count())?;
        let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
        float(q)?;
        let fits = [k, v].iter().all(|t| t.dtype == q.dtype && t.rank() == 4)
            && q.rank() == 4
            && (q.shape[0], q.shape[3]) == (k.shape[0], k.shape[3])
            && k.shape[..3] == v.shape[..3]
            && (k.shape[2] == q.shape[2] || k.shape[2] > 0 && q.shape[2].is_multiple_of(k.shape[2]));
        if !fits {
            return Err(Error::user(format!(
                "q {q}, k {k} and v {v} are not [B,Tq,H,D], [B,Tk,G,D] and [B,Tk,G,Dv] of one dtype, G a divisor of H"
            )));
        }
        let n = AttentionSizes::of(q, k, v);
        let extras = self.extras(&inputs[3 + between..]);
        self.check_extras(n, &extras, q.dtype)?;
        self.check_scores(n, &extras)?;
        let mut outputs = vec![Type::sized(q.dtype, &[n.batch, n.queries, n.heads, n.value])?];
        if self.weighting.is_softmax() {
            outputs.push(Type::new(q.dtype.accumulator(), &[n.batch, n.heads, n.queries]));
        }
        Ok(outputs)
    }

    fn check_extras(&self, n: AttentionSizes, extras: &Extras<Type>, dtype: DType) -> Result<()> {
        let must_be = |what: &str, found: &Option<Type>, dtype: DType, shape: &[usize]| match found {
            Some(found) if *found != Type::new(dtype, shape) => {
                let expected = Type::new(dtype, shape);
                Err(Error::user(format!("the {what} must be {expected}, not {found}")))
            }
            _ => Ok(()),
        };
        must_be("mask", &extras.mask, DType::Bool, &[n.batch, n.keys])?;
        if let Some(starts) = &extras.starts {
            let fits = starts.dtype == DType::I32 && starts.rank() == 1 && starts.shape[0] > 0;
            if !fits || n.batch != 1 || n.queries != n.keys || self.placed {
                return Err(Error::user(format!(
                    "sequences in one row of tokens need starts i32[S+1], a batch of 1, as many queries as keys and no offset, \
                     not {starts}, a batch of {}, {} queries and {} keys",
                    n.batch, n.queries, n.keys
                )));
            }
        }
        if extras.starts.is_some() || extras.offset.is_some() {
            indexable("keys", n.keys.saturating_add(1))?;
        }
        let each = [n.batch];
        let is_each = extras.offset.as_ref().is_some_and(|offset| offset.rank() > 0);
        must_be("offset", &extras.offset, DType::I32, if is_each { &each } else { &[] })?;
        if let Some(fire) = &extras.fire {
            let width = fire.w1.shape.first().copied().unwrap_or(0);
            let shapes: [&[usize]; 6] = [&[], &[], &[width], &[width], &[n.heads, width], &[n.heads]];
            for ((what, found), shape) in ["c", "l", "w1", "b1", "w2", "b2"]
                .iter()
                .zip(fire.clone().into_array())
                .zip(shapes)
            {
                must_be(&format!("parameter {what} of FIRE"), &Some(found), dtype, shape)?;
            }
        }
        must_be("weight", &extras.weight, dtype, &[n.heads])?;
        extras.key.as_ref().map_or(Ok(()), key)
    }

    /// Checks that the scores, counted from sequence 0 on, and the terms of their biases can be counted.
    fn check_scores(&self, n: AttentionSizes, extras: &Extras<Type>) -> Result<()> {
        let sequences = checked_sum([self.sequence, n.batch]);
        let heads_of_keys = n.head.max(n.value);
        let width = extras.fire.as_ref().map_or(1, |fire| fire.w1.numel());
        let starts = extras.starts.as_ref().map_or(1, Type::numel);
        let counted = [
            // Dropout draws an even number of bits.
            sequences.map(|sequences| [sequences, n.heads, n.queries, n.keys.saturating_add(1)]),
            Some([n.batch, n.queries, n.keys, width]),
            Some([n.batch, n.heads, n.keys, heads_of_keys]),
            Some([n.keys, starts, 1, 1]),
        ];
        if counted
            .iter()
            .all(|shape| shape.is_some_and(|shape| checked_numel(&shape).is_some()))
        {
            return Ok(());
        }
        Err(Error::user(format!(
            "the scores of {} sequences from number {} on, {} heads, {} queries and {} keys cannot be counted",
            n.batch, self.sequence, n.heads, n.queries, n.keys
        )))
    }

    /// The starts of sequences as indices, after `before` other inputs.
    pub(super) fn starts_input(&self, inputs: &[Type], before: usize) -> Option<IndexInput> {
        self.segmented.then(|| IndexInput {
            input: before + usize::from(self.masked),
            limit: inputs[1].shape[1] + 1,
            ignored: None,
        })
    }

    /// The share of the scores that has to be computed, as if sequences were equally long; `before` inputs come before
    /// the starts.
    pub(super) fn share(&self, inputs: &[Type], before: usize) -> f64 {
        let starts = self.starts_input(inputs, before);
        let sequences = starts.map_or(1, |starts| inputs[starts.input].numel().saturating_sub(1));
        let of_all = if self.causal { 0.5 } else { 1.0 };
        of_all / sequences.max(1) as f64
    }
}
