//! Convolution, pooling, resizing and moments of columns, in random programs.

use lessen_graph::ops::{MaxPool2dGather, QuantizedConv2d, ScaleShiftSums};
use lessen_graph::{Conv2dOptions, DType, Pool2d, Tensor};

use super::Writer;

impl Writer {
    pub(super) fn images(&mut self) {
        let channels = self.random.pick(&[1, 2, 4, 6]);
        let x = self.image(channels);
        match self.random.below(4) {
            0 | 1 => self.convolution(x, channels),
            2 => self.pooling(x),
            _ => self.resizing(x),
        }
    }

    pub(super) fn moments(&mut self) {
        let (x, _) = self.ranked(2);
        let [mean, variance] = x.moments();
        self.push(mean, false);
        self.push(variance, false);
        // Vectors of their own: with the mean as center, gradients would cancel.
        let [center, scale, shift] = [(); 3].map(|()| self.leaf(&[x.dim(-1)]));
        let y = x.scale_shift(center, scale, shift);
        self.push(y, false);
        for sum in self.trace.apply(ScaleShiftSums, &[x, center, y]) {
            self.push(sum, false);
        }
    }

    /// A batch of images with exact pixels.
    fn image(&mut self, channels: usize) -> Tensor {
        let images = self.random.pick(&[1, 2, 3]);
        let [height, width] = [(); 2].map(|()| self.random.pick(&[3, 4, 7, 11]));
        self.leaf(&[images, height, width, channels])
    }

    fn convolution(&mut self, x: Tensor, channels: usize) {
        let depthwise = self.random.chance(30);
        let groups = match channels {
            _ if depthwise => channels,
            4 | 6 if self.random.chance(40) => 2,
            _ => 1,
        };
        let outputs = groups * self.random.pick(&[1, 2, 5]);
        let kernel = [(); 2].map(|()| self.random.pick(&[1, 2, 3]));
        let options = Conv2dOptions {
            stride: [(); 2].map(|()| self.random.pick(&[1, 1, 2])),
            padding: [(); 4].map(|()| self.random.pick(&[0, 1, 2])),
            dilation: [(); 2].map(|()| if self.random.chance(80) { 1 } else { 2 }),
            groups,
            ..Conv2dOptions::default()
        };
        let weight = self.leaf(&[outputs, channels / groups, kernel[0], kernel[1]]);
        // An image that is narrower than a dilated window has padding of one pixel at least.
        let x = x.pad(1, 1, 1, 0.0).pad(2, 1, 1, 0.0);
        let products = (channels / groups * kernel[0] * kernel[1]) as f64;
        if self.random.chance(20) {
            return self.convolution_of_codes(x, weight, options);
        }
        self.push(x.conv2d(weight, options) / products.sqrt(), false);
    }

    /// A convolution of the codes of an image and of a weight, whose numbers are exact.
    fn convolution_of_codes(&mut self, x: Tensor, weight: Tensor, options: Conv2dOptions) {
        let zero = self.random.pick(&[128, 100]);
        let codes = x.quantize_linear(0.0625, zero);
        let kernels = weight.permute(&[0, 2, 3, 1]).quantize_linear(0.03125, 128);
        let ones = |n| x.trace().full(DType::F32, &[n], 1.0 / 512.0);
        let scales = (ones(x.shape()[0]), ones(weight.shape()[0]));
        let y = codes.quantized_conv2d(scales.0, (kernels, scales.1), None, QuantizedConv2d::new(options, zero));
        if self.random.chance(50) {
            // Numbers limited, as codes and numbers again.
            let codes = y.relu().quantize_linear(1.0 / 64.0, self.random.pick(&[0, 9]));
            self.push(codes.dequantize_linear(1.0 / 64.0, 0), false);
            return;
        }
        self.push(y * 64.0, false);
    }

    fn windows(&mut self) -> Pool2d {
        let kernel = self.random.pick(&[2, 3]);
        Pool2d {
            stride: [(); 2].map(|()| self.random.pick(&[1, 2, 3])),
            padding: [(); 4].map(|()| self.random.pick(&[0, 1])),
            ..Pool2d::square(kernel)
        }
    }

    fn pooling(&mut self, x: Tensor) {
        let windows = self.windows();
        match self.random.below(4) {
            0 => {
                let counts_padding = self.random.chance(50);
                self.push(x.avg_pool2d(windows, counts_padding), false);
            }
            1 => {
                let size = [(); 2].map(|()| self.random.pick(&[1, 2, 3]));
                self.push(x.adaptive_avg_pool2d(size), false);
            }
            2 => {
                let shape = x.max_pool2d(windows).shape();
                let ids = self.random.ids(&shape, windows.kernel[0] * windows.kernel[1]);
                let taps = self.data(ids);
                let y = self.trace.apply1(MaxPool2dGather { windows }, &[x, taps]);
                self.push(y, true);
            }
            _ => self.push(x.max_pool2d(windows), true),
        }
    }

    fn resizing(&mut self, x: Tensor) {
        let size = [(); 2].map(|()| self.random.pick(&[1, 2, 5, 9]));
        if self.random.chance(50) {
            self.push(x.resize_nearest(size), true);
        } else {
            self.push(x.resize_bilinear(size), false);
        }
    }
}
