//! Positions that count the tokens of a text without its padding tokens, as RoBERTa's do: the first token that is no
//! padding has the row after that of padding, and padding tokens, also within a text, have the row of padding.

use lessen_graph::{DType, Tensor};

use crate::batch::BatchShape;
use crate::context::Cx;

/// Elements whose sums so far are computed at once.
const BLOCK: usize = 16;

/// The row of each token in the table of positions: `i32[N]` without padding between texts, else `i32[B, T]`. `tokens`
/// are those of the batch, `padding` is both the padding token and its row.
#[track_caller]
pub(crate) fn rows(batch: BatchShape, cx: Cx, tokens: Tensor, padding: usize) -> Tensor {
    let counted = tokens.ne(tokens.scalar_like(padding as f64)).cast(DType::F32);
    let sums = sums_so_far(counted);
    let sums = match batch {
        BatchShape::Padded { .. } => sums,
        _ => {
            // Of each token, what was counted before its own text began.
            let [_, n] = batch.tokens();
            let firsts = cx.trace().iota(DType::I32, &[n], 0) - batch.positions(cx);
            let before = (sums - counted).reshape(&[n, 1]).gather(firsts);
            sums - before.reshape(&[1, n])
        }
    };
    let rows = (sums * counted + padding as f64).cast(DType::I32);
    match batch {
        BatchShape::Padded { .. } => rows,
        _ => rows.reshape(&[batch.tokens()[1]]),
    }
}

/// The sum of the elements up to each one of its row, of `x`, `f32[R, N]`.
#[track_caller]
fn sums_so_far(x: Tensor) -> Tensor {
    let [rows, n] = [x.dim(0), x.dim(1)];
    if n <= BLOCK {
        return sums_of_block(x);
    }
    let blocks = n.div_ceil(BLOCK);
    let x = x.pad(1, 0, blocks * BLOCK - n, 0.0);
    let inner = sums_of_block(x.reshape(&[rows * blocks, BLOCK]));
    let totals = inner.slice(1, BLOCK - 1, 1).reshape(&[rows, blocks]);
    let before = (sums_so_far(totals) - totals).reshape(&[rows * blocks, 1]);
    (inner + before).reshape(&[rows, blocks * BLOCK]).slice(1, 0, n)
}

/// The same for short rows.
#[track_caller]
fn sums_of_block(x: Tensor) -> Tensor {
    let n = x.dim(1);
    let [last, each] = [0, 1].map(|axis| x.trace().iota(DType::I32, &[n, n], axis));
    (x.unsqueeze(1) * each.le(last).cast(DType::F32)).sum_axes(&[2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_base::SplitMix64;
    use lessen_graph::{Array, Trace, evaluate_exactly, verify};
    use std::collections::HashMap;

    /// The rows of texts as transformers' `create_position_ids_from_input_ids` gives them.
    fn expected(text: &[i32], padding: i32) -> Vec<f64> {
        let mut count = 0;
        let row = |token: &i32| {
            count += i32::from(*token != padding);
            f64::from(if *token == padding { padding } else { count + padding })
        };
        text.iter().map(row).collect()
    }

    fn found(batch: BatchShape, tokens: &[i32], positions: Option<&[i32]>, padding: usize) -> Vec<f64> {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        let tensor = batch.ids(cx, "tokens");
        trace.output("rows", rows(batch, cx, tensor, padding));
        let graph = trace.finish();
        verify(&graph).unwrap();
        let array = |shape: &[usize], data: &[i32]| {
            Array::new(
                lessen_graph::Type::new(DType::I32, shape),
                data.iter().map(|number| f64::from(*number)).collect(),
            )
        };
        let mut given = HashMap::from([("tokens".to_string(), array(&batch.tokens(), tokens))]);
        if let Some(positions) = positions {
            given.insert("positions".to_string(), array(&[positions.len()], positions));
        }
        let given = given.into_iter().collect();
        evaluate_exactly(&graph, &given).unwrap()["rows"].data.clone()
    }

    #[test]
    fn padding_within_a_text_has_its_own_row_and_is_not_counted() {
        let seed = 11;
        let mut random = SplitMix64::new(seed);
        for round in 0..20 {
            let padding = random.below(3) as i32;
            let mut text = |length: usize| -> Vec<i32> { (0..length).map(|_| random.below(4) as i32).collect() };
            let lengths = [[3, 1, 12], [40, 0, 24], [200, 90, 10]][round % 3];
            let texts = lengths.map(&mut text);
            // Texts that follow each other, with a tail that belongs to none.
            let n = lengths.iter().sum::<usize>().next_multiple_of(16);
            let (mut tokens, mut positions, mut wanted) = (texts.concat(), Vec::new(), Vec::new());
            for text in &texts {
                positions.extend(0..text.len() as i32);
                wanted.extend(expected(text, padding));
            }
            let real = tokens.len();
            tokens.resize(n, padding);
            positions.resize(n, 0);
            let packed = BatchShape::Packed { size: 3, tokens: n };
            let rows = found(packed, &tokens, Some(&positions), padding as usize);
            assert_eq!(rows[..real], wanted, "seed {seed}, round {round}");
            // The tail has rows of the table, too.
            assert!(rows[real..].iter().all(|row| *row == f64::from(padding)));
            // A row for each text.
            let length = 1 + round * 7;
            let texts = [text(length), text(length)];
            let padded = BatchShape::Padded { size: 2, length };
            let wanted: Vec<f64> = texts.iter().flat_map(|text| expected(text, padding)).collect();
            assert_eq!(
                found(padded, &texts.concat(), None, padding as usize),
                wanted,
                "seed {seed}, round {round}"
            );
        }
    }
}
