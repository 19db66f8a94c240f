//! Offsets: packs buffers with known lifetimes into one arena.

/// A buffer that needs an offset.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Size in bytes.
    pub bytes: usize,
    /// First plan step in which it is needed.
    pub first: usize,
    /// Last plan step in which it is needed.
    pub last: usize,
}

/// Alignment of every buffer: a cache line, which is also the widest vector.
pub const ALIGNMENT: usize = 64;

/// Bytes rounded up to [`ALIGNMENT`]; the greatest number where that does not fit.
pub fn aligned(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
}

/// Places buffers so that no two that are alive in the same plan step overlap. Returns their offsets and the bytes of
/// all together. Where these do not fit `usize`, they are the greatest number, and the offsets mean nothing.
///
/// Large buffers are placed first, each in the tightest gap that its lifetime leaves. The bytes occupied during a
/// lifetime are looked up in a segment tree over the plan steps, whose nodes hold merged intervals of bytes, so that
/// the time is near-linear in the number of buffers.
pub fn pack(buffers: &[Buffer]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(buffers[i].bytes), buffers[i].first, i));
    let mut offsets = vec![0; buffers.len()];
    let mut total = 0;
    let steps = buffers.iter().map(|b| b.last + 1).max().unwrap_or(0);
    let mut occupied = if buffers.len() <= FEW {
        Occupied::Few(Vec::new())
    } else {
        Occupied::Many(Tree::new(steps))
    };
    let mut taken = Vec::new();
    for i in order {
        let (first, last) = (buffers[i].first, buffers[i].last);
        let size = aligned(buffers[i].bytes);
        if size == 0 {
            continue;
        }
        occupied.during(first, last, &mut taken);
        let offset = tightest_gap(&taken, size);
        offsets[i] = offset;
        let end = offset.saturating_add(size);
        total = total.max(end);
        occupied.insert(first, last, (offset, end));
    }
    (offsets, total)
}

/// The offset of the smallest gap of at least `size` bytes between intervals sorted by their begin; the end of the last
/// interval if there is none.
fn tightest_gap(taken: &[Interval], size: usize) -> usize {
    let (mut best, mut cursor) = (None, 0_usize);
    for &(begin, end) in taken {
        if begin >= cursor.saturating_add(size) {
            let gap = begin - cursor;
            if best.is_none_or(|(g, _)| gap < g) {
                best = Some((gap, cursor));
            }
        }
        cursor = cursor.max(end);
    }
    best.map_or(cursor, |(_, at)| at)
}

/// Bytes from the first number up to and excluding the second.
type Interval = (usize, usize);

/// Limit of buffers up to which buffers are compared with each other one by one.
const FEW: usize = 256;

/// The occupied bytes of each plan step.
enum Occupied {
    /// The bytes of each buffer, sorted, with its first and last step.
    Few(Vec<(Interval, usize, usize)>),
    Many(Tree),
}

impl Occupied {
    /// The bytes occupied in any step from `first` to `last`, as intervals sorted by their begin.
    fn during(&self, first: usize, last: usize, taken: &mut Vec<Interval>) {
        taken.clear();
        match self {
            Occupied::Few(buffers) => {
                let together = buffers.iter().filter(|b| b.1 <= last && first <= b.2);
                taken.extend(together.map(|b| b.0));
            }
            Occupied::Many(tree) => {
                tree.during(first, last, taken);
                // A stable sort merges the runs of the nodes, each of which is sorted.
                taken.sort();
            }
        }
    }

    fn insert(&mut self, first: usize, last: usize, bytes: Interval) {
        match self {
            Occupied::Few(buffers) => {
                let at = buffers.partition_point(|b| b.0 < bytes);
                buffers.insert(at, (bytes, first, last));
            }
            Occupied::Many(tree) => tree.insert(first, last, bytes),
        }
    }
}

/// The occupied bytes of each plan step, for many buffers.
struct Tree {
    /// Number of steps, rounded up to a power of two.
    steps: usize,
    /// For each node of a segment tree over the steps (the root is 1, the children of `i` are `2i` and `2i + 1`), the
    /// bytes occupied in all of its steps by buffers whose lifetime has the node as a maximal part.
    all: Vec<Vec<Interval>>,
    /// For each node the bytes occupied in some of its steps.
    some: Vec<Vec<Interval>>,
}

impl Tree {
    fn new(steps: usize) -> Tree {
        let steps = steps.next_power_of_two();
        Tree {
            steps,
            all: vec![Vec::new(); 2 * steps],
            some: vec![Vec::new(); 2 * steps],
        }
    }

    /// Appends the bytes occupied in any step from `first` to `last`.
    fn during(&self, first: usize, last: usize, taken: &mut Vec<Interval>) {
        let (mut low, mut high) = (first + self.steps, last + self.steps);
        // Bytes occupied in all steps of a node's ancestor are occupied in the node's steps, too.
        let mut above = [low >> 1, high >> 1];
        while low <= high {
            if low & 1 == 1 {
                taken.extend(&self.some[low]);
                low += 1;
            }
            if high & 1 == 0 {
                taken.extend(&self.some[high]);
                high -= 1;
            }
            (low, high) = (low >> 1, high >> 1);
        }
        while above[0] > 0 {
            taken.extend(&self.all[above[0]]);
            if above[1] != above[0] {
                taken.extend(&self.all[above[1]]);
            }
            above = above.map(|node| node >> 1);
        }
    }

    fn insert(&mut self, first: usize, last: usize, bytes: Interval) {
        let (mut low, mut high) = (first + self.steps, last + self.steps);
        let mut touched = [low, high];
        while low <= high {
            if low & 1 == 1 {
                add(&mut self.all[low], bytes);
                add(&mut self.some[low], bytes);
                low += 1;
            }
            if high & 1 == 0 {
                add(&mut self.all[high], bytes);
                add(&mut self.some[high], bytes);
                high -= 1;
            }
            (low, high) = (low >> 1, high >> 1);
        }
        while touched[0] > 0 {
            add(&mut self.some[touched[0]], bytes);
            add(&mut self.some[touched[1]], bytes);
            touched = touched.map(|node| node >> 1);
        }
    }
}

/// Adds an interval to sorted ones that neither overlap nor touch.
fn add(intervals: &mut Vec<Interval>, (begin, end): Interval) {
    let from = intervals.partition_point(|i| i.1 < begin);
    let to = intervals.partition_point(|i| i.0 <= end);
    if from == to {
        intervals.insert(from, (begin, end));
        return;
    }
    let merged = (begin.min(intervals[from].0), end.max(intervals[to - 1].1));
    intervals[from] = merged;
    intervals.drain(from + 1..to);
}

/// The most bytes that are alive in one step, which no packing can undercut; the greatest number where they do not fit.
pub fn lower_bound(buffers: &[Buffer]) -> usize {
    let steps = buffers.iter().map(|b| b.last + 1).max().unwrap_or(0);
    let mut change = vec![0i128; steps + 1];
    for b in buffers {
        change[b.first] += aligned(b.bytes) as i128;
        change[b.last + 1] -= aligned(b.bytes) as i128;
    }
    let (mut live, mut most) = (0, 0);
    for c in change {
        live += c;
        most = most.max(live);
    }
    usize::try_from(most).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use lessen_base::SplitMix64;

    use super::*;

    fn overlap_free(buffers: &[Buffer], offsets: &[usize], total: usize) {
        for (i, a) in buffers.iter().enumerate() {
            assert!(offsets[i] + a.bytes <= total);
            for (j, b) in buffers.iter().enumerate().skip(i + 1) {
                let together = a.first <= b.last && b.first <= a.last;
                let apart = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                assert!(
                    !together || apart || a.bytes == 0 || b.bytes == 0,
                    "{i} and {j} overlap"
                );
            }
        }
    }

    #[test]
    fn random_buffers_do_not_overlap_and_stay_near_the_bound() {
        let mut random = SplitMix64::new(7);
        let mut next = |n: u64| random.below(n);
        for _ in 0..20 {
            let buffers: Vec<Buffer> = (0..200)
                .map(|_| {
                    let first = next(100) as usize;
                    Buffer {
                        bytes: next(10_000) as usize,
                        first,
                        last: first + next(20) as usize,
                    }
                })
                .collect();
            let (offsets, total) = pack(&buffers);
            overlap_free(&buffers, &offsets, total);
            assert!(total as f64 <= 1.5 * lower_bound(&buffers) as f64);
        }
    }

    #[test]
    fn few_buffers_and_many_are_occupied_alike() {
        let mut random = SplitMix64::new(9);
        let mut next = |n: u64| random.below(n) as usize;
        let (mut few, mut many) = (Occupied::Few(Vec::new()), Occupied::Many(Tree::new(50)));
        let gaps = |occupied: &Occupied, first, last, size| {
            let mut taken = Vec::new();
            occupied.during(first, last, &mut taken);
            tightest_gap(&taken, size)
        };
        for _ in 0..200 {
            let (first, size) = (next(40), 64 * (1 + next(30)));
            let last = first + next(10);
            let offset = gaps(&few, first, last, size);
            assert_eq!(offset, gaps(&many, first, last, size));
            few.insert(first, last, (offset, offset + size));
            many.insert(first, last, (offset, offset + size));
        }
    }

    #[test]
    fn nested_lifetimes_pack_without_loss() {
        // A forward pass that keeps one value in each step, read in reverse order.
        let buffers: Vec<Buffer> = (0..10)
            .map(|i| Buffer {
                bytes: 64 * (i + 1),
                first: i,
                last: 20 - i,
            })
            .collect();
        let (offsets, total) = pack(&buffers);
        overlap_free(&buffers, &offsets, total);
        assert_eq!(total, lower_bound(&buffers));
    }
}
