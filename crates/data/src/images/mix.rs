//! Batches whose examples are mixed: labels become shares of classes.

use lessen_base::SplitMix64;

/// How the examples of a batch are mixed, each with another one of the batch, of all in the same proportion.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mixing {
    /// The parameter of mixup (Zhang et al. 2018): pixels are sums of the pixels of two images, whose share is drawn
    /// from the distribution Beta(a, a).
    pub mixup: Option<f64>,
    /// The parameter of CutMix (Yun et al. 2019): a rectangle of the image, whose share of the area is drawn from
    /// Beta(a, a), is that of another one. Where both are given, each batch is mixed in one of the two ways, as often.
    pub cutmix: Option<f64>,
}

/// How a batch is mixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mixture {
    /// This share of each image is its own.
    Sum(f64),
    /// A rectangle (rows from, to, columns from, to) is that of the partner.
    Rectangle([usize; 4]),
}

impl Mixing {
    /// Whether nothing is mixed.
    pub fn is_none(&self) -> bool {
        self.mixup.is_none() && self.cutmix.is_none()
    }

    /// Mixes the images of a batch, `[count, height, width, channels]` numbers, and in the same way the shares of their
    /// classes, `[count, classes]`.
    pub fn mix(
        &self,
        (images, shape): (&mut [f32], [usize; 3]),
        (targets, classes): (&mut [f32], usize),
        random: &mut SplitMix64,
    ) {
        let size = [shape[0], shape[1]];
        if let Some(mixture) = self.draw(size, random) {
            mixture.mix_images(images, shape);
            mixture.mix_targets(targets, classes, size);
        }
    }

    /// How a batch of images of so many rows and columns is mixed; none where nothing is.
    pub(super) fn draw(&self, [height, width]: [usize; 2], random: &mut SplitMix64) -> Option<Mixture> {
        let sums = match (self.mixup, self.cutmix) {
            (Some(mixup), Some(_)) if random.below(2) == 0 => Some(mixup),
            (Some(mixup), None) => Some(mixup),
            _ => None,
        };
        if let Some(parameter) = sums {
            return Some(Mixture::Sum(beta(parameter, random)));
        }
        let side = (1.0 - beta(self.cutmix?, random)).sqrt();
        let mut stretch = |all: usize| {
            let (middle, half) = (random.below(all as u64) as usize, (side * all as f64) as usize / 2);
            [middle.saturating_sub(half), (middle + half).min(all)]
        };
        let ([top, bottom], [left, right]) = (stretch(height), stretch(width));
        Some(Mixture::Rectangle([top, bottom, left, right]))
    }
}

impl Mixture {
    /// The share of each example that is its own.
    pub(super) fn own_share(self, [height, width]: [usize; 2]) -> f32 {
        match self {
            Mixture::Sum(share) => share as f32,
            Mixture::Rectangle([top, bottom, left, right]) => {
                (1.0 - ((bottom - top) * (right - left)) as f64 / (height * width) as f64) as f32
            }
        }
    }

    /// Mixes the first image of a batch with the last one, the second with the last but one, and so on; one in the
    /// middle stays. `images` are `[count, height, width, channels]` numbers.
    pub(super) fn mix_images(self, images: &mut [f32], [height, width, channels]: [usize; 3]) {
        let own = self.own_share([height, width]);
        pairs(images, height * width * channels, |a, b| match self {
            Mixture::Sum(_) => mixed(a, b, own),
            Mixture::Rectangle([top, bottom, left, right]) => {
                for row in top..bottom {
                    let part = (row * width + left) * channels..(row * width + right) * channels;
                    a[part.clone()].swap_with_slice(&mut b[part]);
                }
            }
        });
    }

    /// Mixes the shares of classes of the examples, `[count, classes]`, in the same way.
    pub(super) fn mix_targets(self, targets: &mut [f32], classes: usize, size: [usize; 2]) {
        let own = self.own_share(size);
        pairs(targets, classes, |a, b| mixed(a, b, own));
    }
}

/// Calls a function of the first and last row, the second and last but one, and so on.
fn pairs(rows: &mut [f32], width: usize, each: impl Fn(&mut [f32], &mut [f32])) {
    let count = rows.len() / width.max(1);
    let (first, second) = rows.split_at_mut(count / 2 * width);
    let last = second.chunks_exact_mut(width.max(1)).rev();
    for (a, b) in first.chunks_exact_mut(width.max(1)).zip(last) {
        each(a, b);
    }
}

/// Makes each of two rows a sum of both: this share of itself and the rest of the other one.
fn mixed(a: &mut [f32], b: &mut [f32], own: f32) {
    for (a, b) in a.iter_mut().zip(b) {
        (*a, *b) = (own * *a + (1.0 - own) * *b, own * *b + (1.0 - own) * *a);
    }
}

/// A number of the distribution Beta(a, a), for `a` above 0: `x / (x + y)` of two numbers of Gamma(a).
fn beta(a: f64, random: &mut SplitMix64) -> f64 {
    let (x, y) = (log_gamma_variate(a, random), log_gamma_variate(a, random));
    // By logarithms, since both are near 0 where `a` is small.
    1.0 / (1.0 + (y - x).exp())
}

/// The logarithm of a number of the distribution Gamma(a) (Marsaglia and Tsang, "A simple method for generating gamma
/// variables", 2000): that of Gamma(a + 1) times `u^(1/a)`.
fn log_gamma_variate(a: f64, random: &mut SplitMix64) -> f64 {
    let d = a + 1.0 - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        let u = 1.0 - random.unit();
        if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            let u = 1.0 - random.unit();
            return (d * v).ln() + u.ln() / a;
        }
    }
}

/// A number of the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_mean_and_variance_of_beta() {
        for a in [0.2, 1.0, 4.0] {
            let mut random = SplitMix64::new(7);
            let draws: Vec<f64> = (0..20_000).map(|_| beta(a, &mut random)).collect();
            assert!(draws.iter().all(|draw| (0.0..=1.0).contains(draw)));
            let mean = draws.iter().sum::<f64>() / 20_000.0;
            let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 20_000.0;
            // The variance is 1 / (4 (2 a + 1)); five standard deviations of both are below 0.02 and 0.01.
            assert!((mean - 0.5).abs() < 0.02, "{a}: {mean}");
            assert!((variance - 0.25 / (2.0 * a + 1.0)).abs() < 0.01, "{a}: {variance}");
        }
        let mut random = SplitMix64::new(1);
        assert!((0..1000).all(|_| (0.0..=1.0).contains(&beta(1e-6, &mut random))));
    }

    #[test]
    fn sums_are_of_the_first_and_the_last() {
        let mixture = Mixture::Sum(0.75);
        let mut images = vec![0., 4., 100., 100., 8., 0.];
        mixture.mix_images(&mut images, [1, 2, 1]);
        assert_eq!(images, [2., 3., 100., 100., 6., 1.]);
        let mut targets = vec![1., 0., 0., 0., 0., 1., 0., 1., 0.];
        mixture.mix_targets(&mut targets, 3, [1, 2]);
        assert_eq!(targets, [0.75, 0.25, 0., 0., 0., 1., 0.25, 0.75, 0.]);
    }

    #[test]
    fn a_rectangle_is_that_of_the_partner_and_targets_follow_its_area() {
        // Of 2 x 4 pixels, the right half of the lower row.
        let mixture = Mixture::Rectangle([1, 2, 2, 4]);
        let mut images: Vec<f32> = (0..16).map(|at| at as f32).collect();
        mixture.mix_images(&mut images, [2, 4, 1]);
        assert_eq!(
            images,
            [0., 1., 2., 3., 4., 5., 14., 15., 8., 9., 10., 11., 12., 13., 6., 7.]
        );
        let mut targets = vec![1., 0., 0., 1.];
        mixture.mix_targets(&mut targets, 2, [2, 4]);
        assert_eq!(targets, [0.75, 0.25, 0.25, 0.75]);
    }

    #[test]
    fn both_ways_come_as_often_and_rectangles_lie_inside() {
        let mixing = Mixing {
            mixup: Some(0.8),
            cutmix: Some(1.0),
        };
        let draw = |seed| mixing.draw([5, 7], &mut SplitMix64::new(seed)).unwrap();
        let (mut sums, mut shares) = (0, 0.0);
        for mixture in (0..4000).map(draw) {
            match mixture {
                Mixture::Sum(_) => sums += 1,
                Mixture::Rectangle([top, bottom, left, right]) => {
                    assert!(top <= bottom && bottom <= 5 && left <= right && right <= 7);
                    shares += mixture.own_share([5, 7]);
                }
            }
        }
        // The standard deviation is 32.
        assert!((1840..=2160).contains(&sums), "{sums}");
        // Rectangles of half of the area in the mean, less the part outside of the image.
        let mean = f64::from(shares) / (4000 - sums) as f64;
        assert!((0.5..0.85).contains(&mean), "{mean}");
        assert_eq!(Mixing::default().draw([5, 7], &mut SplitMix64::new(1)), None);
    }
}
