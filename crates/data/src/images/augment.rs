//! Changes of training images that leave what they show: each drawn anew for every example in every epoch.

use std::fmt;
use std::str::FromStr;

use lessen_base::SplitMix64;

use super::affine::Affine;
use super::image::{Image, Sample};
use super::rand_augment::{STRONGEST, rand_augment};
use super::resize::Filter;

/// A change of one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Augmentation {
    /// A part of the image's size, cut at random from the image with a black frame of so many pixels.
    Crop(usize),
    /// A part of at least this share of the area, of sides between 3 : 4 and 4 : 3, resized to what the model sees
    /// (Szegedy et al. 2015).
    ResizedCrop(f64),
    /// Left and right exchanged, with this probability.
    Flip(f64),
    /// Turned around the middle by an angle between plus and minus so many degrees.
    Rotate(f64),
    /// Scaled around the middle by a factor between 1 less and 1 more this share.
    Scale(f64),
    /// Brightness, contrast and saturation times factors between 1 less and 1 more these shares, hues turned by at
    /// most the last share of their circle, in an order that is drawn.
    Jitter([f64; 4]),
    /// A square of so many pixels around a pixel of the image, filled with the mean colour of the data.
    Cutout(usize),
    /// So many changes of this strength, from 0 to 30: see [`RandAugment`](https://arxiv.org/abs/1909.13719).
    RandAugment(u32, u32),
}

/// What a change may have to know of the model's images.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a, T = u8> {
    /// Rows and columns that the model sees.
    pub size: [usize; 2],
    pub filter: Filter,
    /// Black in each channel.
    pub black: &'a [T],
    /// The mean of each channel.
    pub mean: &'a [T],
}

impl Augmentation {
    /// What can be written for one, as in messages.
    pub fn words() -> String {
        format!(
            "crop:PIXELS, resized-crop[:LEAST], flip[:PROBABILITY], rotate:DEGREES, scale:SHARE, \
             jitter:BRIGHTNESS:CONTRAST:SATURATION:HUE, cutout:PIXELS, rand-augment:CHANGES:STRENGTH (up to {STRONGEST})"
        )
    }

    /// Whether it makes images of the size that the model sees from images of any size.
    pub(super) fn resizes(self) -> bool {
        matches!(self, Augmentation::ResizedCrop(_))
    }

    /// Whether it changes colours, which bytes alone have.
    pub(super) fn recolours(self) -> bool {
        matches!(self, Augmentation::Jitter(_) | Augmentation::RandAugment(..))
    }

    /// Changes an image.
    pub(super) fn apply<T: Sample>(
        self,
        mut image: Image<T>,
        target: Target<'_, T>,
        random: &mut SplitMix64,
    ) -> Image<T> {
        match self {
            Augmentation::Crop(frame) => {
                let mut place = || random.below(2 * frame as u64 + 1) as isize - frame as isize;
                let (row, column) = (place(), place());
                image.part_on(target.black, [row, column], [image.height(), image.width()])
            }
            Augmentation::ResizedCrop(least) => {
                let [row, column, rows, columns] = drawn_part([image.height(), image.width()], least, random);
                let part = image.part_on(target.black, [row as isize, column as isize], [rows, columns]);
                part.resampled(target.size, target.filter)
            }
            Augmentation::Flip(probability) => {
                if random.unit() < probability {
                    image.mirrored()
                } else {
                    image
                }
            }
            Augmentation::Rotate(degrees) => image.mapped_on(target.black, Affine::rotation(between(degrees, random))),
            Augmentation::Scale(share) => image.mapped_on(target.black, Affine::scale(1.0 + between(share, random))),
            Augmentation::Jitter([brightness, contrast, saturation, hue]) => {
                let mut order = [0, 1, 2, 3];
                random.shuffle(&mut order);
                let mut factor = |share: f64| (1.0 + between(share, random)) as f32;
                let factors = [factor(brightness), factor(contrast), factor(saturation)];
                let turn = between(hue, random) as f32;
                T::recoloured(image, &mut |mut image| {
                    for change in order {
                        match change {
                            0 => image.bright(factors[0]),
                            1 => image.contrasted(factors[1]),
                            2 => image.saturated(factors[2]),
                            _ => image.hue_turned(turn),
                        }
                    }
                    image
                })
            }
            Augmentation::Cutout(size) => {
                let row = random.below(image.height() as u64) as usize;
                let column = random.below(image.width() as u64) as usize;
                image.cut_out(row, column, size, target.mean);
                image
            }
            Augmentation::RandAugment(count, strength) => {
                T::recoloured(image, &mut |image| rand_augment(image, count, strength, random))
            }
        }
    }
}

/// A number between plus and minus `size`.
fn between(size: f64, random: &mut SplitMix64) -> f64 {
    size * (2.0 * random.unit() - 1.0)
}

/// Row, column, height and width of a part of at least a share of the area. Of ten that are drawn the first one that
/// fits in the image; or else the largest one in its middle.
fn drawn_part([height, width]: [usize; 2], least: f64, random: &mut SplitMix64) -> [usize; 4] {
    let (narrowest, widest) = (0.75f64, 4.0f64 / 3.0);
    for _ in 0..10 {
        let area = (least + (1.0 - least) * random.unit()) * (height * width) as f64;
        let sides = (narrowest.ln() + (widest.ln() - narrowest.ln()) * random.unit()).exp();
        let (columns, rows) = (
            (area * sides).sqrt().round() as usize,
            (area / sides).sqrt().round() as usize,
        );
        if (1..=width).contains(&columns) && (1..=height).contains(&rows) {
            let row = random.below((height - rows) as u64 + 1) as usize;
            let column = random.below((width - columns) as u64 + 1) as usize;
            return [row, column, rows, columns];
        }
    }
    let rows = height.min((width as f64 / narrowest).round() as usize);
    let columns = width.min((height as f64 * widest).round() as usize);
    [(height - rows) / 2, (width - columns) / 2, rows, columns]
}

impl fmt::Display for Augmentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Augmentation::Crop(frame) => write!(f, "crop:{frame}"),
            Augmentation::ResizedCrop(least) => write!(f, "resized-crop:{least}"),
            Augmentation::Flip(probability) => write!(f, "flip:{probability}"),
            Augmentation::Rotate(degrees) => write!(f, "rotate:{degrees}"),
            Augmentation::Scale(share) => write!(f, "scale:{share}"),
            Augmentation::Jitter([b, c, s, h]) => write!(f, "jitter:{b}:{c}:{s}:{h}"),
            Augmentation::Cutout(size) => write!(f, "cutout:{size}"),
            Augmentation::RandAugment(count, strength) => write!(f, "rand-augment:{count}:{strength}"),
        }
    }
}

/// The reason why a word is no augmentation: it is none of [`Augmentation::words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAugmentation;

impl FromStr for Augmentation {
    type Err = NoAugmentation;

    fn from_str(text: &str) -> Result<Augmentation, NoAugmentation> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let numbers: Option<Vec<f64>> = parts.map(|part| part.parse().ok()).collect();
        let numbers = numbers.ok_or(NoAugmentation)?;
        let share = |number: f64| (0.0..=1.0).contains(&number);
        let below_1 = |number: f64| (0.0..1.0).contains(&number);
        let whole = |number: f64, most: f64| number.fract() == 0.0 && (0.0..=most).contains(&number);
        Ok(match (name, &numbers[..]) {
            ("crop", [frame]) if whole(*frame, 1e4) => Augmentation::Crop(*frame as usize),
            ("resized-crop", []) => Augmentation::ResizedCrop(0.08),
            ("resized-crop", [least]) if share(*least) && *least > 0.0 => Augmentation::ResizedCrop(*least),
            ("flip", []) => Augmentation::Flip(0.5),
            ("flip", [probability]) if share(*probability) => Augmentation::Flip(*probability),
            ("rotate", [degrees]) if (0.0..=180.0).contains(degrees) => Augmentation::Rotate(*degrees),
            ("scale", [range]) if below_1(*range) => Augmentation::Scale(*range),
            ("jitter", [b, c, s, h]) if [b, c, s].into_iter().all(|x| share(*x)) && (0.0..=0.5).contains(h) => {
                Augmentation::Jitter([*b, *c, *s, *h])
            }
            ("cutout", [size]) if whole(*size, 1e4) => Augmentation::Cutout(*size as usize),
            ("rand-augment", [count, strength]) if whole(*count, 100.0) && whole(*strength, f64::from(STRONGEST)) => {
                Augmentation::RandAugment(*count as u32, *strength as u32)
            }
            _ => return Err(NoAugmentation),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::decode::tests::sloping;

    const TARGET: Target<'static> = Target {
        size: [8, 6],
        filter: Filter::Bilinear,
        black: &[0; 3],
        mean: &[1, 2, 3],
    };

    fn results(augmentation: &str, image: &Image) -> Vec<Image> {
        let augmentation: Augmentation = augmentation.parse().unwrap();
        let draw = |seed| augmentation.apply(image.clone(), TARGET, &mut SplitMix64::new(seed));
        (0..300).map(draw).collect()
    }

    #[test]
    fn crops_reach_every_place_of_the_frame() {
        let image = sloping([8, 6, 3]);
        let found = results("crop:1", &image);
        for row in -1..=1 {
            for column in -1..=1 {
                assert!(found.contains(&image.part(row, column, 8, 6)), "{row} {column}");
            }
        }
        assert!(found.iter().all(|image| image.shape() == [8, 6, 3]));
    }

    #[test]
    fn resized_crops_have_the_size_that_the_model_sees() {
        for shape in [[40, 30, 3], [3, 50, 1], [1, 1, 1]] {
            let found = results("resized-crop", &sloping(shape));
            assert!(found.iter().all(|image| image.shape() == [8, 6, shape[2]]));
        }
        let mut random = SplitMix64::new(1);
        for _ in 0..1000 {
            let [row, column, rows, columns] = drawn_part([40, 30], 0.08, &mut random);
            assert!(row + rows <= 40 && column + columns <= 30);
            // Both sides are rounded.
            let area = ((rows as f64 + 0.5) * (columns as f64 + 0.5)) / 1200.0;
            assert!(area >= 0.08, "{rows} x {columns}");
            assert!((columns as f64 - 0.5) / (rows as f64 + 0.5) < 4.0 / 3.0);
        }
        // Nothing with sides of 3 : 4 to 4 : 3 has half of the area: the largest in the middle.
        assert_eq!(drawn_part([9, 90], 1.0, &mut random), [0, 39, 9, 12]);
    }

    #[test]
    fn flips_come_with_their_probability() {
        let image = sloping([8, 6, 3]);
        let mirrored = image.clone().mirrored();
        let flips = |word: &str| results(word, &image).iter().filter(|found| **found == mirrored).count();
        assert_eq!((flips("flip:0"), flips("flip:1")), (0, 300));
        // The standard deviation is 8.7.
        assert!((107..=193).contains(&flips("flip")), "{}", flips("flip"));
    }

    #[test]
    fn a_cutout_has_the_mean_colour() {
        for image in results("cutout:2", &sloping([8, 6, 3])) {
            let holes = image.bytes().chunks(3).filter(|pixel| pixel == &[1, 2, 3]).count();
            // In a corner only one of its pixels is inside.
            assert!((1..=4).contains(&holes), "{holes}");
        }
    }

    #[test]
    fn nothing_of_a_change_is_nothing() {
        let image = sloping([8, 6, 3]);
        for word in [
            "crop:0",
            "rotate:0",
            "scale:0",
            "jitter:0:0:0:0",
            "cutout:0",
            "rand-augment:0:9",
        ] {
            assert!(results(word, &image).iter().all(|found| *found == image), "{word}");
        }
        for word in ["rotate:20", "scale:0.5", "jitter:0.4:0.4:0.4:0.1", "rand-augment:2:9"] {
            let found = results(word, &image);
            assert!(found.iter().filter(|found| **found != image).count() > 200, "{word}");
            assert_eq!(found, results(word, &image), "{word}");
        }
    }

    #[test]
    fn numbers_are_moved_as_bytes_are() {
        // A byte x is the number x / 2 - 1.
        let image = sloping([8, 6, 3]);
        let numbers = |image: &Image| image.bytes().iter().map(|byte| f32::from(*byte) / 2.0 - 1.0).collect();
        let of_numbers = Image::of_samples(image.shape(), numbers(&image));
        let target = Target {
            size: TARGET.size,
            filter: TARGET.filter,
            black: &[-1.0; 3],
            mean: &[-0.5, 0.0, 0.5],
        };
        for word in ["crop:2", "resized-crop", "flip", "rotate:20", "scale:0.5", "cutout:3"] {
            let augmentation: Augmentation = word.parse().unwrap();
            assert!(!augmentation.recolours(), "{word}");
            let found = (0..50).map(|seed| augmentation.apply(of_numbers.clone(), target, &mut SplitMix64::new(seed)));
            for (bytes, found) in results(word, &image).iter().zip(found) {
                let expected: Vec<f32> = numbers(bytes);
                let mut pairs = expected.iter().zip(found.samples());
                // Bytes are rounded once, or after rows and after columns.
                assert!(
                    pairs.all(|(a, b)| (a - b).abs() <= 0.51),
                    "{word}: {expected:?} {found:?}"
                );
            }
        }
    }

    #[test]
    fn words_are_read_back_and_others_refused() {
        for word in [
            "crop:4",
            "resized-crop:0.08",
            "flip:0.5",
            "rotate:15",
            "scale:0.2",
            "jitter:0.4:0.4:0.4:0.1",
            "cutout:16",
            "rand-augment:2:9",
        ] {
            assert_eq!(word.parse::<Augmentation>().unwrap().to_string(), word);
        }
        for word in [
            "",
            "crop",
            "crop:-1",
            "crop:1.5",
            "flip:2",
            "flip:0.5:1",
            "rotate:200",
            "scale:1",
            "jitter:1",
            "cutout:x",
            "resized-crop:0",
            "rand-augment:2:31",
            "turn",
            "flip:nan",
        ] {
            assert_eq!(word.parse::<Augmentation>(), Err(NoAugmentation), "{word}");
        }
    }
}
