//! Tiles of the results of a convolution, and the pixels that they read.

use lessen_graph::ops::{Conv2dSizes, Slide};

/// Height and width of a tile, and of the pixels that it reads.
const SIDE: usize = 4;
const READ: usize = 6;

/// Tiles of 4 x 4 pixels, each of which reads 6 x 6 pixels of an image. Pixels outside the image are zeros; pixels
/// outside the result are not written.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    images: usize,
    /// Height and width of an image, and of a result.
    read: [usize; 2],
    written: [usize; 2],
    /// Rows and columns of padding before an image; negative where the first window begins within it.
    before: [isize; 2],
    /// Whether windows read by the taps of the weight from the last one to the first.
    pub(super) is_turned: bool,
}

impl Tiles {
    /// The tiles of a convolution with windows of 3 x 3 pixels side by side, in one group.
    pub(crate) fn of_windows(sizes: Conv2dSizes) -> Option<Tiles> {
        let axes = [sizes.rows, sizes.columns];
        let is_plain = |slide: &Slide| (slide.taps, slide.stride, slide.dilation) == (3, 1, 1);
        (sizes.groups == 1 && axes.iter().all(is_plain)).then_some(Tiles {
            images: sizes.images,
            read: axes.map(|slide| slide.input),
            written: axes.map(|slide| slide.windows),
            before: axes.map(|slide| slide.before as isize),
            is_turned: false,
        })
    }

    /// The tiles of its derivative for the image.
    pub(crate) fn of_positions(sizes: Conv2dSizes) -> Option<Tiles> {
        let tiles = Tiles::of_windows(sizes)?;
        Some(Tiles {
            read: tiles.written,
            written: tiles.read,
            before: tiles.before.map(|before| 2 - before),
            is_turned: true,
            ..tiles
        })
    }

    /// Rows and columns of tiles of a result.
    fn grid(&self) -> [usize; 2] {
        self.written.map(|extent| extent.div_ceil(SIDE))
    }

    /// Tiles of all results.
    pub(super) fn count(&self) -> usize {
        let [rows, columns] = self.grid();
        self.images * rows * columns
    }

    /// Pixels of all results.
    pub(super) fn pixels(&self) -> usize {
        self.images * self.written[0] * self.written[1]
    }

    /// The numbers of the pixels that a tile reads, among those of all images.
    pub(super) fn read(&self, tile: usize) -> [[Option<usize>; READ]; READ] {
        let (image, at) = self.place(tile);
        let first = [0, 1].map(|axis| at[axis] as isize - self.before[axis]);
        numbers(image, first, self.read)
    }

    /// The numbers of the pixels of a tile, among those of all results.
    pub(super) fn written(&self, tile: usize) -> [[Option<usize>; SIDE]; SIDE] {
        let (image, at) = self.place(tile);
        numbers(image, at.map(|at| at as isize), self.written)
    }

    /// The result of a tile, and the row and the column of the tile's first pixel.
    fn place(&self, tile: usize) -> (usize, [usize; 2]) {
        let [rows, columns] = self.grid();
        let (image, within) = (tile / (rows * columns), tile % (rows * columns));
        (image, [within / columns * SIDE, within % columns * SIDE])
    }
}

/// The numbers of the pixels of a square, where they lie in an image of this height and width.
fn numbers<const N: usize>(image: usize, first: [isize; 2], extents: [usize; 2]) -> [[Option<usize>; N]; N] {
    let at = |axis: usize, i: usize| {
        let at = usize::try_from(first[axis] + i as isize).ok();
        at.filter(|at| *at < extents[axis])
    };
    std::array::from_fn(|row| {
        let line = at(0, row).map(|row| (image * extents[0] + row) * extents[1]);
        std::array::from_fn(|column| Some(line? + at(1, column)?))
    })
}
