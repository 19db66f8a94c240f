//! Convolutions and pooling, on images with their channels first.

use lessen_base::{Error, Result};
use lessen_graph::ops::pooling::{MaxPool2d, Pool2d, Resample2d, Sampling};
use lessen_graph::ops::{Conv2d, Conv2dGradInput};
use lessen_graph::{Conv2dOptions, Named, Op};

use super::parameters::attributes;
use super::{Operation, always};
use crate::export::emitter::Emitter;
use crate::export::writer::{int, ints, text};
use crate::proto::AttributeProto;

pub(super) const OPERATIONS: &[Operation] = &[
    always(Conv2d::NAME, conv2d),
    always(Conv2dGradInput::NAME, conv_transpose2d),
    always(MaxPool2d::NAME, max_pool),
    Operation {
        name: Resample2d::NAME,
        fits: |op: &dyn Op| op.is::<Resample2d>(),
        emit: resample,
    },
];

fn sizes(name: &str, values: &[usize]) -> AttributeProto {
    let values: Vec<i64> = values.iter().map(|value| *value as i64).collect();
    ints(name, &values)
}

/// Padding above, below, left and right in the order of ONNX: what is before each axis, then what is after.
fn pads([top, bottom, left, right]: [usize; 4]) -> AttributeProto {
    sizes("pads", &[top, left, bottom, right])
}

fn conv2d(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let options = attributes::<Conv2d>(e, node)?.options;
    convolution(e, node, "Conv", options, None)
}

fn conv_transpose2d(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let Conv2dGradInput { options, size } = *attributes(e, node)?;
    let inputs = &e.node(node).inputs;
    let kernel = e.fixed_shape(inputs[1])?;
    let image = [1, 2].map(|axis| e.shape(inputs[0])[axis].constant());
    let [top, bottom, left, right] = options.padding;
    // What the result has beyond the last tap of the last pixel.
    let beyond = |axis: usize, padding: usize| {
        let steps = (image[axis]? - 1) * options.stride[axis] as i64;
        let taps = (kernel[2 + axis] as i64 - 1) * options.dilation[axis] as i64;
        Some((size[axis] + padding) as i64 - (steps + taps + 1))
    };
    let [Some(height), Some(width)] = [beyond(0, top + bottom), beyond(1, left + right)] else {
        return Err(Error::user(
            "the operation `conv2d_grad_input` of images of an open size has no operator in ONNX and cannot be exported",
        ));
    };
    let beyond = ints("output_padding", &[height, width]);
    convolution(e, node, "ConvTranspose", options, Some(beyond))
}

fn convolution(
    e: &mut Emitter<'_>,
    node: usize,
    operator: &str,
    options: Conv2dOptions,
    more: Option<AttributeProto>,
) -> Result<()> {
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let (x, weight) = (e.channels_first(inputs[0])?, e.plain(inputs[1])?);
    let kernel = e.fixed_shape(inputs[1])?;
    let mut attributes = vec![
        sizes("kernel_shape", &kernel[2..]),
        sizes("strides", &options.stride),
        sizes("dilations", &options.dilation),
        pads(options.padding),
        int("group", options.groups as i64),
    ];
    attributes.extend(more);
    let name = e.writer.one(operator, &[&x, &weight], attributes);
    e.set_channels_first(output, name);
    Ok(())
}

fn windows(windows: Pool2d) -> Vec<AttributeProto> {
    vec![
        sizes("kernel_shape", &windows.kernel),
        sizes("strides", &windows.stride),
        pads(windows.padding),
    ]
}

fn max_pool(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let own = attributes::<MaxPool2d>(e, node)?.windows;
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    let x = e.channels_first(input)?;
    let name = e.writer.one("MaxPool", &[&x], windows(own));
    e.set_channels_first(output, name);
    Ok(())
}

fn resample(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let sampling = attributes::<Resample2d>(e, node)?.sampling;
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    let image = [1, 2].map(|axis| e.shape(input)[axis].constant());
    let x = e.channels_first(input)?;
    let name = match sampling {
        Sampling::Average {
            windows: own,
            count_padding,
        } => {
            let counts = int("count_include_pad", count_padding.into());
            let attributes = [windows(own), vec![counts]].concat();
            e.writer.one("AveragePool", &[&x], attributes)
        }
        Sampling::AdaptiveAverage { size: [1, 1] } => e.writer.one("GlobalAveragePool", &[&x], vec![]),
        Sampling::AdaptiveAverage { size } => {
            let kernel = [0, 1].map(|axis| {
                let extent = usize::try_from(image[axis]?).ok()?;
                extent.is_multiple_of(size[axis]).then(|| extent / size[axis])
            });
            let [Some(height), Some(width)] = kernel else {
                return Err(Error::user(
                    "an average of windows that overlap has no operator in ONNX, so the operation `resample2d` cannot be \
                     exported",
                ));
            };
            let own = Pool2d {
                kernel: [height, width],
                stride: [height, width],
                padding: [0; 4],
            };
            e.writer.one("AveragePool", &[&x], windows(own))
        }
        Sampling::Nearest { size } => {
            let how = [
                ("mode", "nearest"),
                ("coordinate_transformation_mode", "asymmetric"),
                ("nearest_mode", "floor"),
            ];
            resized(e, &x, output, size, &how)
        }
        Sampling::Bilinear { size } => {
            let how = [("mode", "linear"), ("coordinate_transformation_mode", "half_pixel")];
            resized(e, &x, output, size, &how)
        }
    };
    e.set_channels_first(output, name);
    Ok(())
}

/// Images in another size.
fn resized(
    e: &mut Emitter<'_>,
    x: &str,
    output: lessen_graph::ValueId,
    size: [usize; 2],
    how: &[(&str, &str)],
) -> String {
    let [n, _, _, c] = e.shape(output) else {
        return String::new();
    };
    let to = [n.clone(), c.clone(), e.fixed(size[0] as i64), e.fixed(size[1] as i64)];
    let sizes = e.sizes(&to);
    let attributes = how.iter().map(|(name, value)| text(name, value)).collect();
    e.writer.one("Resize", &[x, "", "", &sizes], attributes)
}
