//! Offsets: packs buffers with known lifetimes into one arena.

/// A buffer to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Size in bytes.
    pub bytes: usize,
    /// First step in which it is needed.
    pub first: usize,
    /// Last step in which it is needed.
    pub last: usize,
}

/// Alignment of every buffer: a cache line, and a whole vector of the widest kind.
pub const ALIGNMENT: usize = 64;

fn aligned(bytes: usize) -> usize {
    bytes.div_ceil(ALIGNMENT) * ALIGNMENT
}

/// Places buffers so that no two that are alive in the same step overlap. Returns their offsets and the bytes in all.
///
/// Large buffers are placed first, each in the tightest gap that its lifetime leaves.
pub fn pack(buffers: &[Buffer]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(buffers[i].bytes), buffers[i].first, i));
    let mut offsets = vec![0; buffers.len()];
    let mut total = 0;
    // Placed so far, by offset.
    let mut placed: Vec<(usize, usize, usize)> = Vec::with_capacity(buffers.len());
    for i in order {
        let buffer = buffers[i];
        let size = aligned(buffer.bytes);
        if size == 0 {
            continue;
        }
        let (mut best, mut cursor) = (None, 0);
        for &(offset, end, j) in &placed {
            let other = buffers[j];
            if other.last < buffer.first || other.first > buffer.last {
                continue;
            }
            if offset >= cursor + size {
                let gap = offset - cursor;
                if best.is_none_or(|(g, _)| gap < g) {
                    best = Some((gap, cursor));
                }
            }
            cursor = cursor.max(end);
        }
        let offset = best.map_or(cursor, |(_, at)| at);
        offsets[i] = offset;
        total = total.max(offset + size);
        let at = placed.partition_point(|&(o, ..)| o < offset);
        placed.insert(at, (offset, offset + size, i));
    }
    (offsets, total)
}

/// The most bytes that are alive in one step: no packing can do with less.
pub fn lower_bound(buffers: &[Buffer]) -> usize {
    let steps = buffers.iter().map(|b| b.last + 1).max().unwrap_or(0);
    let mut change = vec![0isize; steps + 1];
    for b in buffers {
        change[b.first] += aligned(b.bytes) as isize;
        change[b.last + 1] -= aligned(b.bytes) as isize;
    }
    let (mut live, mut most) = (0, 0);
    for c in change {
        live += c;
        most = most.max(live);
    }
    most as usize
}

#[cfg(test)]
mod tests {
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
        let mut state = 7u64;
        let mut next = |n: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
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
    fn nested_lifetimes_pack_without_loss() {
        // A forward pass that keeps one value a step, read back in reverse order.
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
