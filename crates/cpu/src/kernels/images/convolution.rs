//! Which kernel a convolution has: one for depthwise convolutions, which memory binds, one for windows of 3 x 3 pixels
//! over enough channels of `f32`, and one for all others.

use lessen_graph::DType;
use lessen_graph::ops::{self, Conv2dSizes};

use super::super::kernel::{Kernel, Types, WholeKernel};
use super::depthwise::depthwise;
use super::depthwise_weight::depthwise_weight;
use super::of_f32;
use super::patches::patches;
use super::patches_weight::patches_weight;
use super::products::Products;
use super::reads::{Pixels, of_positions, of_windows};
use super::winograd::{self, Tiles};
use crate::kernels::elementwise::cast::Bf16;

/// The kernel of [`ops::Conv2d`].
pub(in super::super) fn conv2d_kernel(op: &ops::Conv2d, types: &Types<'_>) -> Option<Kernel> {
    let sizes = op.sizes(types.inputs).ok()?;
    let (inputs, outputs, taps) = (sizes.group_inputs(), sizes.group_outputs(), taps(sizes));
    let products = Products {
        taps: [sizes.rows.taps, sizes.columns.taps],
        images: sizes.images,
        image: sizes.rows.windows * sizes.columns.windows,
        joined: joined(sizes),
        groups: sizes.groups,
        inputs,
        outputs,
        tap_stride: 1,
        group_stride: outputs * inputs * taps,
        input_stride: taps,
        output_stride: inputs * taps,
    };
    if types
        .inputs
        .iter()
        .chain(types.outputs)
        .all(|ty| ty.dtype == DType::BF16)
    {
        if types.any_empty() {
            return None;
        }
        let kernel = if is_depthwise(sizes) {
            depthwise::<Bf16, Bf16>(sizes, of_windows)
        } else {
            patches::<Bf16>(sizes, of_windows, products, true)
        };
        return kernel.into();
    }
    let tiles = Tiles::of_windows(sizes);
    of_images(op.options.widens, types, sizes, of_windows, tiles, products)
}

/// The kernel of [`ops::Conv2dGradInput`]: the same sums, of the windows that a pixel lies in.
pub(in super::super) fn conv2d_grad_input_kernel(op: &ops::Conv2dGradInput, types: &Types<'_>) -> Option<Kernel> {
    let (sizes, _) = op.sizes(types.inputs).ok()?;
    let (inputs, outputs, taps) = (sizes.group_outputs(), sizes.group_inputs(), taps(sizes));
    let products = Products {
        taps: [sizes.rows.taps, sizes.columns.taps],
        images: sizes.images,
        image: sizes.rows.input * sizes.columns.input,
        joined: 1,
        groups: sizes.groups,
        inputs,
        outputs,
        tap_stride: 1,
        group_stride: outputs * inputs * taps,
        input_stride: outputs * taps,
        output_stride: taps,
    };
    let tiles = Tiles::of_positions(sizes);
    of_images(op.options.widens, types, sizes, of_positions, tiles, products)
}

/// The kernel of [`ops::Conv2dGradWeight`].
pub(in super::super) fn conv2d_grad_weight_kernel(op: &ops::Conv2dGradWeight, types: &Types<'_>) -> Option<Kernel> {
    let (sizes, _) = op.sizes(types.inputs).ok()?;
    by_factor(
        op.options.widens,
        types,
        || {
            if sizes.is_depthwise() {
                depthwise_weight::<f32>(sizes)
            } else {
                winograd::gradient(sizes, patches_weight::<f32>(sizes))
            }
        },
        || {
            if sizes.is_depthwise() {
                depthwise_weight::<Bf16>(sizes)
            } else {
                patches_weight::<Bf16>(sizes)
            }
        },
    )
}

/// How many taps of a row lie side by side in every window of a convolution.
pub(super) fn joined(sizes: Conv2dSizes) -> usize {
    let columns = sizes.columns;
    let last = columns.windows.saturating_sub(1).saturating_mul(columns.stride);
    let is_inside = columns.before == 0 && last.saturating_add(columns.taps) <= columns.input;
    if sizes.groups == 1 && columns.dilation == 1 && is_inside {
        columns.taps
    } else {
        1
    }
}

/// Whether each channel has a filter of its own, so that memory limits the speed. The depthwise kernel computes along
/// channels, so a single channel is left to the product of windows.
pub(super) fn is_depthwise(sizes: Conv2dSizes) -> bool {
    sizes.is_depthwise() && sizes.groups > 1
}

fn taps(sizes: Conv2dSizes) -> usize {
    sizes.rows.taps * sizes.columns.taps
}

/// The kernel for factors of `f32` or of `bf16`.
fn by_factor(
    of_bf16: bool,
    types: &Types<'_>,
    wide: impl FnOnce() -> WholeKernel,
    narrow: impl FnOnce() -> WholeKernel,
) -> Option<Kernel> {
    if !of_bf16 {
        return of_f32(types, || Some(wide()));
    }
    if types.any_empty() {
        return None;
    }
    narrow().into()
}

fn of_images(
    of_bf16: bool,
    types: &Types<'_>,
    sizes: Conv2dSizes,
    read: fn(Conv2dSizes) -> Pixels<usize>,
    tiles: Option<Tiles>,
    products: Products,
) -> Option<Kernel> {
    by_factor(
        of_bf16,
        types,
        || {
            if is_depthwise(sizes) {
                depthwise::<f32, f32>(sizes, read)
            } else {
                winograd::product(tiles, products, patches::<f32>(sizes, read, products, false))
            }
        },
        || {
            if is_depthwise(sizes) {
                depthwise::<Bf16, f32>(sizes, read)
            } else {
                patches::<Bf16>(sizes, read, products, false)
            }
        },
    )
}
