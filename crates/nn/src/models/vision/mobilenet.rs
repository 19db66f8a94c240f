//! MobileNetV2 (Sandler et al. 2018): inverted residuals, whose middle is wide and convolved channel by channel.
//!
//! Parameters have torchvision's names: `features.0.0.weight`, `features.1.conv.0.0.weight`, ..,
//! `features.18.1.running_var`, `classifier.1.weight`.

use lessen_base::mobilenet::STAGES;
use lessen_graph::Tensor;

use super::parts::activate;
use crate::activation::Activation;
use crate::context::Cx;
use crate::init::Init;
use crate::layers::{BatchNorm, Convolution, batch_norm, conv2d, linear};

/// A MobileNetV2.
#[derive(Clone, PartialEq, Debug)]
pub struct MobileNetV2 {
    /// Factor of the numbers of channels. The products are rounded to multiples of 8, by less than a tenth downwards.
    /// The last convolution has at least 1,280 channels.
    pub width: f64,
    /// Batch normalization.
    pub norm: BatchNorm,
    /// Activation.
    pub activation: Activation,
    /// Dropout probability of the pooled features.
    pub dropout: f64,
    /// Number of classes.
    pub classes: usize,
}

impl MobileNetV2 {
    /// The network of the paper: width 1, ReLU6, dropout 0.2.
    pub fn new(classes: usize) -> MobileNetV2 {
        MobileNetV2 {
            width: 1.0,
            norm: BatchNorm::default(),
            activation: Activation::Relu6,
            dropout: 0.2,
            classes,
        }
    }

    /// The logits of the classes, `[N, classes]`, of images `[N, H, W, C]`.
    #[track_caller]
    pub fn forward(&self, cx: Cx, images: Tensor) -> Tensor {
        self.forward_with_features(cx, images).0
    }

    /// The logits, and the features that the last layer reads, `[N, width]`.
    #[track_caller]
    pub fn forward_with_features(&self, cx: Cx, images: Tensor) -> (Tensor, Tensor) {
        let stem = Convolution::square(channels(32.0 * self.width), 3, 2);
        let mut x = self.convolve(cx, "features.0", images, stem);
        let mut number = 1;
        for stage in STAGES {
            let out = channels(stage.channels as f64 * self.width);
            for block in 0..stage.blocks {
                let stride = if block == 0 { stage.stride } else { 1 };
                let name = format!("features.{number}.conv");
                x = cx.scope(&name, |cx| self.inverted_residual(cx, x, stage.expansion, out, stride));
                number += 1;
            }
        }
        let last = Convolution::square(channels(1280.0 * self.width.max(1.0)), 1, 1);
        let x = self.convolve(cx, &format!("features.{number}"), x, last);
        let pooled = cx.dropout(x.global_avg_pool2d(), self.dropout);
        let logits = linear(cx, "classifier.1", pooled, self.classes, Init::Normal { std: 0.01 });
        (logits, pooled)
    }

    /// 1 x 1 to more channels, unless the expansion is 1, 3 x 3 of each channel, and 1 x 1 without activation, added to
    /// the input if the sizes are the same.
    #[track_caller]
    fn inverted_residual(&self, cx: Cx, x: Tensor, expansion: usize, out: usize, stride: usize) -> Tensor {
        let inner = x.dim(-1) * expansion;
        let mut convolutions = vec![Convolution::square(inner, 3, stride).grouped(inner)];
        if expansion != 1 {
            convolutions.insert(0, Convolution::square(inner, 1, 1));
        }
        let activated = convolutions.len();
        let mut y = x;
        for (number, how) in convolutions.into_iter().enumerate() {
            y = self.convolve(cx, &number.to_string(), y, how);
        }
        y = conv2d(cx, &activated.to_string(), y, Convolution::square(out, 1, 1));
        y = batch_norm(cx, &(activated + 1).to_string(), y, self.norm);
        if stride == 1 && x.dim(-1) == out { x + y } else { y }
    }

    /// Convolution `NAME.0`, norm `NAME.1` and activation.
    #[track_caller]
    fn convolve(&self, cx: Cx, name: &str, x: Tensor, how: Convolution) -> Tensor {
        let cx = cx.enter(name);
        let y = batch_norm(*cx, "1", conv2d(*cx, "0", x, how), self.norm);
        activate(*cx, self.activation, y)
    }
}

/// The multiple of 8 next to this number of channels, at least 8, and one more if it is less than 0.9 of it.
fn channels(wanted: f64) -> usize {
    let nearest = ((wanted + 4.0) / 8.0).floor().max(1.0) * 8.0;
    let enough = if nearest < 0.9 * wanted { nearest + 8.0 } else { nearest };
    enough as usize
}
