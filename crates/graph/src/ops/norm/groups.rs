//! Normalization of groups of channels, and of rows that lie over several axes.

use crate::tensor::Tensor;

impl Tensor {
    /// Images `[N, C, ..]` whose groups of channels have mean 0 and variance 1, each image by itself (Wu and He 2018):
    /// `(x - mean) / sqrt(variance + eps)`, without scale and shift.
    ///
    /// # Panics
    /// If the groups do not divide the channels, or the images have no elements.
    #[track_caller]
    pub fn normalize_groups(self, groups: usize, eps: f64) -> Tensor {
        let shape = self.shape();
        let (&[images, channels, ..], 1..) = (&shape[..], groups) else {
            self.trace().fail(format!("{} has no groups of channels", self.ty()));
        };
        if !channels.is_multiple_of(groups) || self.ty().numel() == 0 {
            let sentence = format!(
                "{channels} channels of {} do not divide into {groups} groups",
                self.ty()
            );
            self.trace().fail(sentence);
        }
        let rows = self.reshape(&[images * groups, self.ty().numel() / (images * groups)]);
        let centred = rows - rows.mean_axes(&[1]).unsqueeze(1);
        let variance = (centred * centred).mean_axes(&[1]).unsqueeze(1);
        (centred * (variance + eps).rsqrt()).reshape(&shape)
    }

    /// What a function makes of rows of `width` elements, which are those of the last axes; it keeps the shape.
    #[track_caller]
    pub fn by_rows(self, width: usize, f: impl FnOnce(Tensor) -> Tensor) -> Tensor {
        let shape = self.shape();
        if shape.last() == Some(&width) {
            return f(self);
        }
        let rows = self.ty().numel() / width.max(1);
        f(self.reshape(&[rows, width])).reshape(&shape)
    }
}
