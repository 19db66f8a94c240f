//! Bits do not depend on the number of threads.

use super::case::Case;
use crate::plans::runner::{Options, bits, run_once};

#[test]
fn threads_change_no_bit() {
    for weighting in ["softmax", "norm_softmax:gamma=inf,learned", "relu", "sigmoid"] {
        for heads in [1, 3, 16] {
            let case = Case {
                weighting,
                heads,
                kv_heads: heads,
                d: 32,
                dv: 32,
                causal: true,
                p: 0.1,
                ..Case::of_length(530)
            };
            let (graph, inputs) = (case.graph(), case.inputs());
            let run = |threads| {
                let options = Options {
                    threads,
                    ..Options::default()
                };
                bits(&run_once(&graph, &options, &inputs).1)
            };
            let one = run(1);
            for threads in [2, 3, 8] {
                assert!(one == run(threads), "{case:?} with {threads} threads");
            }
        }
    }
}
