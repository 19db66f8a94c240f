//! Normalization of images by statistics of their channels. Parameters and statistics have PyTorch's names.

use lessen_graph::ops::FakeQuantize;
use lessen_graph::{Phase, Tensor, all_gather, concat};

use crate::context::Cx;
use crate::init::Init;

lessen_base::words! {
    /// How the spread of a channel over a batch is measured.
    #[derive(Default)]
    pub enum Spread {
        /// The population variance.
        #[default]
        Variance = "variance",
        /// The population variance over the examples of a whole step, which all of its groups have in common: of all
        /// micro-batches, on all processes. Outside of steps in several groups it is [`Spread::Variance`].
        Synchronized = "synchronized",
        /// The range, the greatest number less the least, over `sqrt(2 ln n)` for `n` numbers, in place of the
        /// deviation (Banner et al. 2018, section 3): it needs no sum of squares. The range of normal numbers is about
        /// twice that, and the weight of the layer makes up for it.
        Range = "range",
        /// [`Spread::Range`] of inputs that are rounded to 8 bits, and normalized as such.
        Range8 = "range8",
    }
}

impl Spread {
    /// All of them.
    pub const ALL: [Spread; 4] = [Spread::Variance, Spread::Synchronized, Spread::Range, Spread::Range8];

    /// The word in recipes and in `config.json`.
    pub fn name(self) -> &'static str {
        lessen_base::word::Word::word(self)
    }

    /// What is normalized of `x`, `[N, .., C]`: itself, or its nearest codes of 8 bits times a scale of each of the `N`
    /// images, which makes its largest magnitude the largest code. Gradients pass as if nothing was rounded.
    /// `magnitudes` gives the largest magnitudes, `[N]`.
    #[track_caller]
    pub fn of_input(self, x: Tensor, magnitudes: impl FnOnce(Tensor) -> Tensor) -> Tensor {
        if self != Spread::Range8 {
            return x;
        }
        let codes = FakeQuantize::symmetric(8, 0);
        let rows = x.reshape(&[x.dim(0), x.ty().numel() / x.dim(0).max(1)]);
        let scales = (magnitudes(x) / codes.high as f64).maximum(x.scalar_like(f64::from(f32::MIN_POSITIVE)));
        rows.fake_quantize(codes, scales, None).reshape(&x.shape())
    }

    /// Mean and squared spread of the columns of `rows`, `[n, C]`, and what running statistics take for the latter,
    /// each `[C]`.
    #[track_caller]
    pub fn moments(self, cx: Cx, rows: Tensor) -> [Tensor; 3] {
        let count = rows.dim(0) as f64;
        match self {
            Spread::Synchronized if cx.ranks().count > 1 => over_groups(cx, rows.moments(), count),
            Spread::Variance | Spread::Synchronized => {
                let [mean, variance] = rows.moments();
                [mean, variance, variance * (count / (count - 1.0))]
            }
            Spread::Range | Spread::Range8 => {
                let spread = (rows.max_axes(&[0]) - rows.min_axes(&[0])) / (2.0 * count.ln()).sqrt();
                let squared = spread * spread;
                [rows.mean_axes(&[0]), squared, squared]
            }
        }
    }
}

/// Mean, population variance and unbiased variance over all groups of a step, from the moments of one group over
/// `count` numbers of each channel. The variance is the mean of the groups' variances plus the variance of their means.
#[track_caller]
fn over_groups(cx: Cx, [mean, variance]: [Tensor; 2], count: f64) -> [Tensor; 3] {
    let (ranks, channels, is_there) = (cx.ranks(), mean.dim(0), cx.has_batch());
    let width = 2 * channels + 1;
    let one = is_there.cast(mean.dtype()).reshape(&[1]);
    let own = concat(&[mean, variance, one], 0);
    let own = is_there.select(own, own.full_like(0.0));
    let all = all_gather(own, &[ranks.count, width], ranks, width);
    // A group without a micro-batch has no part in the gradients of others.
    let all = is_there.select(all, all.stop_gradient());
    let (means, variances) = (all.slice(1, 0, channels), all.slice(1, channels, channels));
    let is_in = all.slice(1, 2 * channels, 1);
    let groups = is_in.sum_axes(&[0]);
    let over_all = |x: Tensor| (x * is_in).sum_axes(&[0]) / groups;
    let mean = over_all(means);
    let off = means - mean;
    let variance = over_all(variances + off * off);
    let numbers = groups * count;
    let rest = (numbers - 1.0).maximum(numbers.full_like(1.0));
    [mean, variance, variance * (numbers / rest)]
}

/// Settings of batch normalization.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BatchNorm {
    /// Added to the variance.
    pub eps: f64,
    /// Share of the difference between a batch's statistics and the running statistics by which a step moves
    /// the latter.
    pub momentum: f64,
    /// Whether training reads the running statistics, too, and does not change them.
    pub frozen: bool,
    /// How the spread of a channel is measured; `NAME.running_var` is its square.
    pub spread: Spread,
}

impl Default for BatchNorm {
    /// PyTorch's settings: eps 1e-5, momentum 0.1, not frozen, by the variance.
    fn default() -> BatchNorm {
        BatchNorm {
            eps: 1e-5,
            momentum: 0.1,
            frozen: false,
            spread: Spread::default(),
        }
    }
}

/// Batch normalization (Ioffe and Szegedy 2015) of `[.., C]`: `y = (x - mean) / sqrt(variance + eps) · weight + bias`.
///
/// In training, each channel has its mean and population variance over the batch. The step moves `NAME.running_mean`
/// towards this mean and `NAME.running_var` towards the unbiased variance, by `momentum` of the difference, as PyTorch
/// does; see [`Spread`] for another measure. Everywhere else, and where the layer is frozen or the model has adapters,
/// the running statistics take their place. They are buffers, which checkpoints hold and no optimizer changes; see
/// [`Cx::buffer`].
///
/// With gradient accumulation each part of the batch is normalized by its own statistics, and moves the running
/// statistics: the result depends on the number of parts, as it does in PyTorch, unless they are
/// [synchronized](Spread::Synchronized). Where a
/// layer of one name is applied several times in a step, each application moves them on from where the one before left
/// them.
///
/// # Panics
/// In training, with a single element of each channel, which has no variance; with settings out of range.
#[track_caller]
pub fn batch_norm(cx: Cx, name: &str, x: Tensor, how: BatchNorm) -> Tensor {
    let cx = cx.enter(name);
    let channels = x.dim(-1);
    let parameter = |name: &str, init| cx.param(name, &[channels], init);
    let (weight, bias) = (parameter("weight", Init::Ones), parameter("bias", Init::Zeros));
    let running_mean = cx.buffer("running_mean", &[channels], Init::Zeros);
    let running_var = cx.buffer("running_var", &[channels], Init::Ones);
    batch_norm_of(*cx, x, [weight, bias, running_mean, running_var], how)
}

/// [`batch_norm`] with this weight, bias, running mean and running variance, `[C]` each.
///
/// # Panics
/// As [`batch_norm`].
#[track_caller]
pub fn batch_norm_of(
    cx: Cx,
    x: Tensor,
    [weight, bias, running_mean, running_var]: [Tensor; 4],
    how: BatchNorm,
) -> Tensor {
    let BatchNorm { eps, momentum, .. } = how;
    if !(eps.is_finite() && eps >= 0.0 && (0.0..=1.0).contains(&momentum)) {
        let sentence = format!(
            "batch normalization with eps = {eps} and momentum = {momentum}; choose a finite eps from 0 and a momentum from \
             0 to 1"
        );
        cx.trace().fail(sentence);
    }
    let x = how.spread.of_input(x, |x| {
        let axes: Vec<usize> = (1..x.rank()).collect();
        x.stop_gradient().abs().max_axes(&axes)
    });
    if !cx.training() || how.frozen || cx.lora().is_some() {
        return x.scale_shift(running_mean, weight * (running_var + how.eps).rsqrt(), bias);
    }
    let rows = x.flatten_rows();
    if rows.dim(0) < 2 {
        let sentence = format!("batch normalization of {} has a single element of each channel", x.ty());
        cx.trace().fail(sentence);
    }
    let [mean, variance, unbiased] = how.spread.moments(cx, rows);
    cx.trace().in_phase(Phase::Update, || {
        for (state, new) in [(running_mean, mean), (running_var, unbiased)] {
            cx.trace()
                .change(state, |before| before + (new - before) * how.momentum);
        }
    });
    x.scale_shift(mean, weight * (variance + how.eps).rsqrt(), bias)
}

/// Group normalization (Wu and He 2018) of images `[N, .., C]`: each group of channels of an image by its own mean and
/// population variance, then scaled by `NAME.weight` and shifted by `NAME.bias`, `[C]` each.
///
/// # Panics
/// If the groups do not divide the channels.
#[track_caller]
pub fn group_norm(cx: Cx, name: &str, x: Tensor, groups: usize, eps: f64) -> Tensor {
    let cx = cx.enter(name);
    let channels = x.dim(-1);
    let weight = cx.param("weight", &[channels], Init::Ones);
    normalize_groups(x, groups, eps, Some(weight)) + cx.param("bias", &[channels], Init::Zeros)
}

/// Instance normalization (Ulyanov, Vedaldi and Lempitsky 2016) of images `[N, .., C]`: each channel of an image by its
/// own mean and population variance. It has no parameters; [`group_norm`] with a group for each channel has them.
#[track_caller]
pub fn instance_norm(x: Tensor, eps: f64) -> Tensor {
    normalize_groups(x, x.dim(-1), eps, None)
}

/// `(x - mean) / sqrt(variance + eps)`, times a weight of each channel if there is one, with the statistics of each
/// group of channels of each image.
#[track_caller]
fn normalize_groups(x: Tensor, groups: usize, eps: f64, weight: Option<Tensor>) -> Tensor {
    let shape = x.shape();
    let &[images, ref pixels @ .., channels] = shape.as_slice() else {
        x.trace().fail(format!("{} is no batch of images `[N, .., C]`", x.ty()));
    };
    if groups == 0 || !channels.is_multiple_of(groups) {
        let sentence = format!("{channels} channels do not divide into {groups} groups");
        x.trace().fail(sentence);
    }
    let pixels = pixels.iter().product();
    let rows = x.reshape(&[images, pixels, channels]);
    let [mut mean, mut variance] = rows.moments();
    if groups < channels {
        // The variance of a group is the mean of its channels' variances plus the variance of their means.
        let split = |x: Tensor| x.reshape(&[images, groups, channels / groups]);
        let means = split(mean);
        let group_mean = means.mean_last();
        let off = means - group_mean;
        let group_variance = (split(variance) + off * off).mean_last();
        let whole = |x: Tensor| {
            let wide = x.broadcast_to(&[images, groups, channels / groups]);
            wide.reshape(&[images, channels])
        };
        (mean, variance) = (whole(group_mean), whole(group_variance));
    }
    let rstd = (variance + eps).rsqrt();
    let scale = weight.map_or(rstd, |weight| rstd * weight);
    ((rows - mean.unsqueeze(1)) * scale.unsqueeze(1)).reshape(&shape)
}
