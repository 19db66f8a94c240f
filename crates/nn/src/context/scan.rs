//! Bodies that are repeated.

use lessen_graph::{ScanOptions, Tensor};

use super::Cx;

impl Cx {
    /// Repeats a body, which is traced and compiled once: turn by turn it takes the carries of the turn before and the
    /// next slices, along the first axis of `slices`, and gives the next carries and further results. Returns the last
    /// carries, and the results of all turns, stacked along a new first axis in the order of the slices.
    ///
    /// The body may use tensors from outside and declare parameters, which are the same in every turn; so are the
    /// random numbers that it draws, those of dropout among them. Draw random numbers that are to differ before, with
    /// an axis of turns, and give them as slices. The body runs in `f32` where products run in `bf16` otherwise.
    ///
    /// In training the carries at the begin of each turn are kept for the derivative; see
    /// [`ScanOptions::keeps_carries`].
    ///
    /// ```
    /// use lessen_graph::{DType, Tensor, Trace};
    /// use lessen_nn::layers::linear;
    /// use lessen_nn::{Cx, Init};
    ///
    /// /// The state of a network after all of a sequence, `f32[rows, width]`, of its elements, `f32[length, rows, n]`.
    /// fn state_after(cx: Cx, sequence: Tensor, width: usize) -> Tensor {
    ///     let (length, rows) = (sequence.dim(0), sequence.dim(1));
    ///     let init = Init::Normal { std: 0.1 };
    ///     let start = cx.param("start", &[width], Init::Zeros).broadcast_to(&[rows, width]);
    ///     let (last, _) = cx.scan(length, &[start], &[sequence], |state, x| {
    ///         let own = linear(cx, "state", state[0], width, init);
    ///         (vec![(own + linear(cx, "element", x[0], width, init)).tanh()], vec![])
    ///     });
    ///     last[0]
    /// }
    ///
    /// let trace = Trace::new();
    /// let cx = Cx::new(*trace, false);
    /// let sequence = cx.input("sequence", DType::F32, &[7, 2, 3]);
    /// assert_eq!(state_after(cx, sequence, 5).shape(), [2, 5]);
    /// ```
    ///
    /// # Panics
    /// As [`TraceRef::scan`](lessen_graph::TraceRef::scan).
    #[track_caller]
    pub fn scan(
        self,
        options: impl Into<ScanOptions>,
        carries: &[Tensor],
        slices: &[Tensor],
        body: impl FnOnce(&[Tensor], &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>),
    ) -> (Vec<Tensor>, Vec<Tensor>) {
        let mut options = options.into();
        options.keeps_carries |= self.training();
        self.trace().scan(options, carries, slices, body)
    }
}
