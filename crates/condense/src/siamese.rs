//! Differentiable siamese augmentation (Zhao and Bilen 2021, "Dataset Condensation with Differentiable Siamese
//! Augmentation"): what changes images, and by how much.
//!
//! A batch gets one operation of a [`Strategy`]. Real and synthetic images of a class get the same [`Change`], so that
//! what is learned of one view of the real images is written into the same places of the synthetic ones.

use lessen_base::{Error, Result, SplitMix64};
use std::fmt;
use std::str::FromStr;

/// Probability of a flip.
const FLIP: f64 = 0.5;

/// Greatest factor of a scale; the least is its inverse.
const SCALE: f64 = 1.2;

/// Greatest angle of a rotation, in degrees.
const ROTATE: f64 = 15.0;

/// Greatest shift of a crop, as a share of height and width.
const CROP: f64 = 0.125;

/// Height and width of what is cut out, as a share of those of the image.
const CUTOUT: f64 = 0.5;

/// Width of the range of what is added to all pixels, around 0.
const BRIGHTNESS: f64 = 1.0;

/// Greatest factor of the distance of colours from grey.
const SATURATION: f64 = 2.0;

/// Least factor of the distance of pixels from their mean; the greatest is 1 more.
const CONTRAST: f64 = 0.5;

/// An operation that changes images.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Brightness, saturation and contrast.
    Color,
    /// A shift; zeros come in.
    Crop,
    /// Zeros in a rectangle.
    Cutout,
    /// The mirror image, left for right.
    Flip,
    /// Another height and width, around the same centre.
    Scale,
    /// A rotation around the centre.
    Rotate,
}

/// All operations with their words, in the order of published strategies.
const OPERATIONS: [(Operation, &str); 6] = [
    (Operation::Color, "color"),
    (Operation::Crop, "crop"),
    (Operation::Cutout, "cutout"),
    (Operation::Flip, "flip"),
    (Operation::Scale, "scale"),
    (Operation::Rotate, "rotate"),
];

/// A set of operations, of which each batch gets one. In words they are joined as published:
/// `color_crop_cutout_flip_scale_rotate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strategy {
    /// Whether it has each of the operations.
    has: [bool; 6],
}

impl Strategy {
    /// All operations.
    pub const ALL: Strategy = Strategy { has: [true; 6] };

    /// All operations but the flip, for digits and letters.
    pub const DIGITS: Strategy = Strategy {
        has: [true, true, true, false, true, true],
    };

    /// The form of its words, for messages.
    pub fn words() -> String {
        format!(
            "operations joined with _, of {}",
            OPERATIONS.map(|(_, word)| word).join(", ")
        )
    }

    /// Whether it has an operation.
    pub fn has(&self, operation: Operation) -> bool {
        self.operations().any(|(own, _)| own == operation)
    }

    /// Whether it has an operation that moves pixels.
    pub fn moves(&self) -> bool {
        let moving = [Operation::Crop, Operation::Flip, Operation::Scale, Operation::Rotate];
        moving.into_iter().any(|operation| self.has(operation))
    }

    fn operations(&self) -> impl Iterator<Item = (Operation, &'static str)> {
        let own = OPERATIONS.into_iter().zip(self.has);
        own.filter(|(_, has)| *has).map(|(operation, _)| operation)
    }

    /// Chooses an operation, and draws `count` changes by it for images of this `[H, W, C]`.
    pub fn draw(&self, shape: [usize; 3], count: usize, random: &mut SplitMix64) -> Vec<Change> {
        let own: Vec<Operation> = self.operations().map(|(operation, _)| operation).collect();
        let operation = own[random.below(own.len() as u64) as usize];
        (0..count).map(|_| operation.draw(shape, random)).collect()
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Strategy> {
        let mut has = [false; 6];
        for word in text.split('_') {
            let place = OPERATIONS.iter().position(|(_, own)| *own == word);
            match place {
                Some(place) if !has[place] => has[place] = true,
                place => {
                    let what = place.map_or("has no meaning", |_| "is said twice");
                    return Err(Error::user(format!(
                        "`{word}` {what} in the strategy `{text}`; choose {}",
                        Strategy::words()
                    )));
                }
            }
        }
        Ok(Strategy { has })
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.operations().map(|(_, word)| word).collect();
        f.write_str(&words.join("_"))
    }
}

/// A change of an image `x[row, column, channel]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// `y = x + brightness`; then `y += (saturation - 1) (y - the mean of its channels)`; then
    /// `y += (contrast - 1) (y - the mean of the image)`.
    Color {
        /// From -1/2 to 1/2.
        brightness: f64,
        /// From 0 to 2.
        saturation: f64,
        /// From 1/2 to 3/2.
        contrast: f64,
    },
    /// The pixel at `[row + down, column + right]`, and 0 beyond the edges.
    Crop {
        /// Rows.
        down: i64,
        /// Columns.
        right: i64,
    },
    /// Zeros in a rectangle, as far as it lies in the image.
    Cutout {
        /// First row.
        top: i64,
        /// First column.
        left: i64,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
    /// The pixel at `[row, W - 1 - column]`, or the image as it is.
    Flip {
        /// Whether it is the mirror image.
        is_flipped: bool,
    },
    /// The pixel whose distance from the centre is this many times as large, between pixels by bilinear
    /// interpolation; 0 beyond the edges.
    Scale {
        /// Factor of rows.
        down: f64,
        /// Factor of columns.
        right: f64,
    },
    /// With coordinates from -1 to 1 in both directions, the pixel at the place that is turned by this angle, as
    /// [`Change::Scale`] says.
    Rotate {
        /// Angle in radians.
        angle: f64,
    },
}

impl Operation {
    /// Draws a change of an image of this `[H, W, C]`.
    fn draw(self, [height, width, _]: [usize; 3], random: &mut SplitMix64) -> Change {
        let share = |extent: usize, share: f64| (extent as f64 * share + 0.5) as usize;
        match self {
            Operation::Color => Change::Color {
                brightness: (random.unit() - 0.5) * BRIGHTNESS,
                saturation: random.unit() * SATURATION,
                contrast: random.unit() + CONTRAST,
            },
            Operation::Crop => {
                let mut shift = |extent: usize| {
                    let most = share(extent, CROP) as i64;
                    random.below(2 * most as u64 + 1) as i64 - most
                };
                Change::Crop {
                    down: shift(height),
                    right: shift(width),
                }
            }
            Operation::Cutout => {
                let sizes = [height, width].map(|extent| share(extent, CUTOUT));
                // A middle on each edge is as likely as one inside.
                let mut first = |extent: usize, size: usize| {
                    let middles = extent + 1 - size % 2;
                    random.below(middles as u64) as i64 - (size / 2) as i64
                };
                Change::Cutout {
                    top: first(height, sizes[0]),
                    left: first(width, sizes[1]),
                    height: sizes[0],
                    width: sizes[1],
                }
            }
            Operation::Flip => Change::Flip {
                is_flipped: random.unit() < FLIP,
            },
            Operation::Scale => {
                let mut factor = || 1.0 / SCALE + random.unit() * (SCALE - 1.0 / SCALE);
                Change::Scale {
                    down: factor(),
                    right: factor(),
                }
            }
            Operation::Rotate => Change::Rotate {
                angle: (2.0 * random.unit() - 1.0) * ROTATE.to_radians(),
            },
        }
    }
}

impl Change {
    /// The four pixels that the pixel at `[row, column]` is made of, by their numbers, and their weights in a bilinear
    /// interpolation; those beyond the edges have the weight 0.
    pub(crate) fn corners(&self, shape: [usize; 3], place: [usize; 2]) -> [(usize, f64); 4] {
        let ([height, width, _], [row, column]) = (shape, self.origin(shape, place));
        let (top, left) = (row.floor(), column.floor());
        let (below, beside) = (row - top, column - left);
        let corner = |down: usize, right: usize| {
            let share = |part: f64, number: usize| if number == 0 { 1.0 - part } else { part };
            let (y, x) = (top + down as f64, left + right as f64);
            if (0.0..height as f64).contains(&y) && (0.0..width as f64).contains(&x) {
                (
                    y as usize * width + x as usize,
                    share(below, down) * share(beside, right),
                )
            } else {
                (0, 0.0)
            }
        };
        [corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)]
    }

    /// The place, in rows and columns, whose pixel comes to `[row, column]`.
    fn origin(&self, [height, width, _]: [usize; 3], [row, column]: [usize; 2]) -> [f64; 2] {
        let place = [row as f64, column as f64];
        // Coordinates are -1 and 1 on the edges of an image.
        let of_place = |place: f64, extent: usize| (2.0 * place + 1.0) / extent as f64 - 1.0;
        let to_place = |at: f64, extent: usize| ((at + 1.0) * extent as f64 - 1.0) / 2.0;
        let [y, x] = [of_place(place[0], height), of_place(place[1], width)];
        match *self {
            Change::Color { .. } | Change::Cutout { .. } | Change::Flip { is_flipped: false } => place,
            Change::Crop { down, right } => [place[0] + down as f64, place[1] + right as f64],
            Change::Flip { is_flipped: true } => [place[0], width as f64 - 1.0 - place[1]],
            Change::Scale { down, right } => [to_place(down * y, height), to_place(right * x, width)],
            Change::Rotate { angle } => {
                let (sin, cos) = angle.sin_cos();
                [to_place(sin * x + cos * y, height), to_place(cos * x - sin * y, width)]
            }
        }
    }

    /// Whether the pixel at `[row, column]` is kept.
    pub(crate) fn keeps(&self, [row, column]: [usize; 2]) -> bool {
        match *self {
            Change::Cutout {
                top,
                left,
                height,
                width,
            } => {
                let inside = |at: usize, first: i64, size: usize| (0..size as i64).contains(&(at as i64 - first));
                !(inside(row, top, height) && inside(column, left, width))
            }
            _ => true,
        }
    }

    /// What is added to all pixels, and the factors of saturation and contrast less 1.
    pub(crate) fn color(&self) -> [f64; 3] {
        match *self {
            Change::Color {
                brightness,
                saturation,
                contrast,
            } => [brightness, saturation - 1.0, contrast - 1.0],
            _ => [0.0; 3],
        }
    }
}
