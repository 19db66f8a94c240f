//! Which rows or columns of an image each row or column of a result reads, and the loop over the rows of a result.

use lessen_graph::ops::{Conv2dSizes, Slide};

use super::super::kernel::{Round, Work};

/// A row or a column that is read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Read<T> {
    /// Its number.
    pub(crate) at: usize,
    /// The tap of a window, or a weight.
    pub(crate) by: T,
}

/// The rows that each row of a result reads, or the columns that each column reads.
#[derive(Debug)]
pub(crate) struct Reads<T> {
    starts: Vec<usize>,
    all: Vec<Read<T>>,
    /// How many rows or columns from each one on read by the same taps.
    alike: Vec<usize>,
}

impl<T: Copy + PartialEq> Reads<T> {
    /// From a list for each row or column.
    pub(crate) fn new(lists: impl IntoIterator<Item = Vec<Read<T>>>) -> Reads<T> {
        let (mut starts, mut all) = (vec![0], Vec::new());
        for list in lists {
            all.extend(list);
            starts.push(all.len());
        }
        let mut reads = Reads {
            alike: vec![1; starts.len() - 1],
            starts,
            all,
        };
        for i in (1..reads.len()).rev() {
            let taps = |i: usize| reads.of(i).iter().map(|read| read.by);
            if taps(i - 1).eq(taps(i)) {
                reads.alike[i - 1] = reads.alike[i] + 1;
            }
        }
        reads
    }

    /// The number of rows or columns.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The rows or columns that row or column `i` reads.
    #[inline(always)]
    pub(crate) fn of(&self, i: usize) -> &[Read<T>] {
        &self.all[self.starts[i]..self.starts[i + 1]]
    }

    /// The transpose: for each of `n` rows or columns that are read, the rows or columns that read it.
    pub(crate) fn transposed(&self, n: usize) -> Reads<T> {
        let mut lists = vec![Vec::new(); n];
        for i in 0..self.len() {
            for read in self.of(i) {
                lists[read.at].push(Read { at: i, by: read.by });
            }
        }
        Reads::new(lists)
    }

    /// Whether `count` rows or columns from the first one on read by the same taps.
    #[inline(always)]
    pub(crate) fn are_alike(&self, first: usize, count: usize) -> bool {
        self.alike[first] >= count
    }
}

impl Reads<usize> {
    /// The positions of each window.
    pub(crate) fn of_windows(slide: Slide) -> Reads<usize> {
        let window = |w: usize| {
            // Taps before and after the image are skipped, however many there are.
            let begin = slide.before.saturating_sub(w * slide.stride);
            let end = (slide.input + slide.before).saturating_sub(w * slide.stride);
            let taps = begin.div_ceil(slide.dilation)..end.div_ceil(slide.dilation).min(slide.taps);
            let tap = |by| slide.position(w, by).map(|at| Read { at, by });
            taps.filter_map(tap).collect()
        };
        Reads::new((0..slide.windows).map(window))
    }

    /// The windows that each position lies in.
    pub(crate) fn of_positions(slide: Slide) -> Reads<usize> {
        Reads::of_windows(slide).transposed(slide.input)
    }
}

/// The pixels that the pixels of a result read.
pub(crate) struct Pixels<T> {
    /// Rows of the image that each row of the result reads.
    pub(crate) rows: Reads<T>,
    /// Columns of the image that each column of the result reads.
    pub(crate) columns: Reads<T>,
    /// Number of images.
    pub(crate) images: usize,
    /// Height and width of an image that is read.
    pub(crate) from: [usize; 2],
    /// Channels.
    pub(crate) channels: usize,
}

/// A row of a result.
pub(crate) struct Row<'a, T> {
    /// Rows of the image that it reads.
    pub(crate) rows: &'a [Read<T>],
    /// Columns of the image that each of its columns reads.
    pub(crate) columns: &'a Reads<T>,
    /// Elements from row to row of the image.
    pub(crate) line: usize,
    /// Channels.
    pub(crate) channels: usize,
    /// The position of the image's first element.
    pub(crate) image: usize,
    /// The position of the row's first element in the result.
    pub(crate) to: usize,
}

impl<T: Copy + PartialEq + Send + Sync + 'static> Pixels<T> {
    /// Row number `i` of all rows of the result.
    pub(crate) fn row(&self, i: usize) -> Row<'_, T> {
        let (image, row) = (i / self.rows.len(), i % self.rows.len());
        let line = self.from[1] * self.channels;
        Row {
            rows: self.rows.of(row),
            columns: &self.columns,
            line,
            channels: self.channels,
            image: image * self.from[0] * line,
            to: i * self.columns.len() * self.channels,
        }
    }

    /// Calls `run` for every row of the result, some rows in each task.
    pub(crate) fn round(self, run: impl Fn(&Work<'_>, Row<'_, T>) + Send + Sync + 'static) -> Round {
        /// Elements that a task reads, as often as they are read.
        const TASK: usize = 1 << 17;
        let rows = self.images * self.rows.len();
        let reads = self.rows.all.len() * self.columns.all.len() * self.channels;
        let chunk = (TASK * self.rows.len() / reads.max(1)).clamp(1, rows.div_ceil(16).max(1));
        Round {
            tasks: rows.div_ceil(chunk),
            run: Box::new(move |w, task| {
                for i in task * chunk..rows.min((task + 1) * chunk) {
                    run(w, self.row(i));
                }
            }),
        }
    }
}

/// The pixels of its image that the windows of a convolution read.
pub(crate) fn of_windows(sizes: Conv2dSizes) -> Pixels<usize> {
    Pixels {
        rows: Reads::of_windows(sizes.rows),
        columns: Reads::of_windows(sizes.columns),
        images: sizes.images,
        from: [sizes.rows.input, sizes.columns.input],
        channels: sizes.inputs,
    }
}

/// The pixels of the result's cotangent that the pixels of the image read.
pub(crate) fn of_positions(sizes: Conv2dSizes) -> Pixels<usize> {
    Pixels {
        rows: Reads::of_positions(sizes.rows),
        columns: Reads::of_positions(sizes.columns),
        images: sizes.images,
        from: [sizes.rows.windows, sizes.columns.windows],
        channels: sizes.outputs,
    }
}
