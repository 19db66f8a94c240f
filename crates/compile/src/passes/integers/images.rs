//! Convolutions with kernels of codes.

use lessen_graph::{DType, Node, ValueId, ops};

use super::{Codes, Writer, coded, fixed_ranges};

/// Channels of a pixel that a device reads at once.
const WORD: usize = 4;

/// The greatest level of a code of either sign.
const LEVELS: f64 = 127.0;

impl Writer<'_> {
    /// The convolution of a node as one of codes, where its kernels have codes. Memory limits a depthwise convolution,
    /// so images do not get codes for it.
    pub(super) fn convolution(&mut self, node: &Node) -> Option<ValueId> {
        let graph = self.graph;
        let conv = node.op.downcast_ref::<ops::Conv2d>()?;
        let [image, weight] = node.inputs[..] else { return None };
        let (x, kernels) = (graph.ty(image), graph.ty(weight));
        let [codes, scale] = coded::kernels(graph, weight)?;
        let sizes = conv.sizes(&[x.clone(), kernels.clone()]).ok()?;
        let [o, c, height, width] = kernels.shape[..] else {
            return None;
        };
        let fits = (1..=ops::QuantizedMatMul::MOST).contains(&(c * height * width));
        if x.dtype != DType::F32 || x.numel() == 0 || !fits {
            return None;
        }
        let mut images = match self.restored(node, image, &x.shape[..1]) {
            Some(images) => images,
            None if !sizes.is_depthwise() => self.images(node, image),
            None => return None,
        };
        let (codes, scale) = (self.rewriter.get(codes), self.rewriter.get(scale));
        let shape = vec![o, height, width, c];
        let mut weight = self.push(node, ops::Reshape { shape }, &[codes]);
        let more = c.next_multiple_of(WORD) - c;
        if sizes.groups == 1 && more > 0 {
            let middle = ops::QuantizedMatMul::default().zero;
            weight = self.push(node, padded(more, middle), &[weight]);
            images.codes = self.push(node, padded(more, images.zero), &[images.codes]);
        }
        let op = ops::QuantizedConv2d::new(conv.options, images.zero);
        Some(self.push(node, op, &[images.codes, images.scale, weight, scale]))
    }

    /// The codes of images: of the scale that the model rounds them to, or by the largest magnitude of each.
    fn images(&mut self, node: &Node, image: ValueId) -> Codes {
        let x = self.rewriter.get(image);
        if let Some(known) = self.codes.get(&(x, true)) {
            return *known;
        }
        let codes = match fixed_ranges::levels_of(self.graph, image) {
            Some(levels) => self.images_in_range(node, image, levels),
            None => self.images_by_largest(node, image),
        };
        self.codes.insert((x, true), codes);
        codes
    }

    /// The codes of images whose levels have one scale. An image with NaN has the scale NaN.
    fn images_in_range(&mut self, node: &Node, image: ValueId, levels: [ValueId; 2]) -> Codes {
        let shape = self.graph.ty(image).shape.to_vec();
        let rows = [shape[0], shape[1] * shape[2], shape[3]];
        let [codes, scales] = fixed_ranges::codes_of(self.graph, levels, &rows, node, &mut self.rewriter);
        let largest = ops::Reduce {
            kind: ops::ReduceKind::Max,
            axes: vec![1],
        };
        let scale = self.push(node, largest, &[scales]);
        let codes = self.push(node, ops::Reshape { shape }, &[codes]);
        let zero = ops::QuantizedMatMul::default().zero;
        Codes { codes, scale, zero }
    }

    /// The codes of images by the largest magnitude of each. The scale of an image of zeros is the least number.
    fn images_by_largest(&mut self, node: &Node, image: ValueId) -> Codes {
        let x = self.rewriter.get(image);
        let shape = self.graph.ty(image).shape.to_vec();
        let (n, pixels, channels) = (shape[0], shape[1] * shape[2], shape[3]);
        let binary = |kind| ops::Binary { kind };
        let unary = |kind| ops::Unary { kind };
        let largest = |axes| ops::Reduce {
            kind: ops::ReduceKind::Max,
            axes,
        };
        let rows = self.push(
            node,
            ops::Reshape {
                shape: vec![n, pixels, channels],
            },
            &[x],
        );
        let magnitudes = self.push(node, unary(ops::UnaryKind::Abs), &[rows]);
        let of_pixels = self.push(node, largest(vec![2]), &[magnitudes]);
        let most = self.push(node, largest(vec![1]), &[of_pixels]);
        let part = self.full(node, &[n], 1.0 / LEVELS);
        let scale = self.push(node, binary(ops::BinaryKind::Mul), &[most, part]);
        let least = self.full(node, &[n], f32::MIN_POSITIVE.into());
        let scale = self.push(node, binary(ops::BinaryKind::Max), &[scale, least]);
        let inverse = self.push(node, unary(ops::UnaryKind::Recip), &[scale]);
        let flat = vec![n, pixels * channels];
        let x_flat = self.push(node, ops::Reshape { shape: flat.clone() }, &[x]);
        let inverse = self.push(node, ops::Reshape { shape: vec![n, 1] }, &[inverse]);
        let inverse = self.push(node, ops::Broadcast { shape: flat }, &[inverse]);
        let levels = self.push(node, binary(ops::BinaryKind::Mul), &[x_flat, inverse]);
        let zero = ops::QuantizedMatMul::default().zero;
        let codes = self.push(node, ops::QuantizeLinear { scale: 1.0, zero }, &[levels]);
        let codes = self.push(node, ops::Reshape { shape }, &[codes]);
        Codes { codes, scale, zero }
    }
}

/// More channels of this code.
fn padded(more: usize, zero: u8) -> ops::Pad {
    ops::Pad {
        axis: 3,
        before: 0,
        after: more,
        value: zero.into(),
    }
}
