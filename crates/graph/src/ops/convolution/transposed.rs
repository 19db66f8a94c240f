//! Transposed convolution of images (Zeiler et al. 2010), which is the derivative of a convolution for its image.

use lessen_base::{Error, Result};

use super::grad_input::Conv2dGradInput;
use super::sizes::Conv2dOptions;
use crate::tensor::Tensor;
use crate::types::Type;

impl Tensor {
    /// The transposed convolution of images `[N, H, W, C]` with a weight `[C, O / G, KH, KW]`, as PyTorch's
    /// `ConvTranspose2d` has it: `[N, OH, OW, O]`. Each pixel adds its products with all taps to the result, `stride`
    /// pixels after those of the pixel before it, so that
    /// `OH = (H - 1) stride + (KH - 1) dilation + 1 + output_padding - top - bottom`. `output_padding` chooses among
    /// the heights and widths of which a convolution with these options makes `H` and `W`.
    ///
    /// # Panics
    /// If the extents do not fit, or `output_padding` is not below the stride.
    #[track_caller]
    pub fn conv_transpose2d(self, weight: Tensor, options: Conv2dOptions, output_padding: [usize; 2]) -> Tensor {
        self.trace().check_related(format_args!("conv_transpose2d:"), &[weight]);
        match size_of(&self.ty(), &weight.ty(), options, output_padding) {
            Ok(size) => self.trace().apply1(Conv2dGradInput { options, size }, &[self, weight]),
            Err(error) => self.trace().fail(format!("conv_transpose2d: {error}")),
        }
    }
}

/// Height and width of the result.
///
/// # Errors
/// A sentence that names the extents that do not fit.
fn size_of(x: &Type, weight: &Type, options: Conv2dOptions, output_padding: [usize; 2]) -> Result<[usize; 2]> {
    let (&[_, height, width, channels], &[inputs, _, kh, kw]) = (&x.shape[..], &weight.shape[..]) else {
        return Err(Error::user(format!(
            "the images {x} are not [N,H,W,C], or the weight {weight} is not [C,O/G,KH,KW]"
        )));
    };
    if channels != inputs || x.dtype != weight.dtype {
        return Err(Error::user(format!(
            "the weight {weight} takes {inputs} channels of {}, the images {x} have {channels}",
            weight.dtype.name()
        )));
    }
    let [top, bottom, left, right] = options.padding;
    let extent = |axis: &str, at: usize, pixels: usize, kernel: usize, padding: [usize; 2]| {
        let (stride, beyond) = (options.stride[at], output_padding[at]);
        if beyond >= stride {
            return Err(Error::user(format!(
                "the output padding {beyond} along the {axis} is not below the stride {stride}"
            )));
        }
        let [before, after] = padding;
        let steps = pixels.checked_sub(1).and_then(|steps| steps.checked_mul(stride));
        let taps = kernel.checked_sub(1).and_then(|n| n.checked_mul(options.dilation[at]));
        let all = steps.zip(taps).and_then(|(steps, taps)| steps.checked_add(taps));
        let whole = all.and_then(|n| n.checked_add(1 + beyond));
        let size = whole.and_then(|whole| whole.checked_sub(before)?.checked_sub(after));
        size.ok_or_else(|| {
            Error::user(format!(
                "the {axis} {pixels} with a kernel {kernel} and a padding of {before} before and {after} after it gives a \
                 result of no size that can be counted"
            ))
        })
    };
    Ok([
        extent("height", 0, height, kh, [top, bottom])?,
        extent("width", 1, width, kw, [left, right])?,
    ])
}
