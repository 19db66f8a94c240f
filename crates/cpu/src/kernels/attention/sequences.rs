//! How queries are cut into tasks: sequences of a batch, or segments of one run of tokens, and blocks of their queries.

use std::ops::Range;

use super::query_block::BLOCK;

/// Least number of tasks of a round, unless there are fewer blocks of queries.
const TASKS: usize = 24;

/// Blocks of queries of one task at most: a tile of keys meets them all while it is in the cache.
pub(super) const GROUP: usize = 8;

/// The same of the derivative, where a block has more operands.
pub(super) const BACKWARD_GROUP: usize = 4;

/// Blocks of queries of one task, for `sequences` of this many queries. This depends on shapes alone.
pub(super) fn group(sequences: usize, queries: usize) -> usize {
    let blocks = queries.div_ceil(BLOCK);
    (sequences * blocks / TASKS).min(blocks).clamp(1, GROUP)
}

/// Bytes of the scores of one task that are kept between passes, about: the size of a second-level cache.
const STRIP_BYTES: usize = 1 << 20;

/// Blocks of queries whose scores are kept between passes.
pub(super) fn strips(keys: usize) -> usize {
    (STRIP_BYTES / (size_of::<f32>() * BLOCK * keys.max(1))).clamp(1, GROUP)
}

/// Queries in a block where `values` numbers are kept for each of its queries and each key: half a block where they
/// would not fit the cache by far.
pub(super) fn lanes(values: usize, keys: usize) -> usize {
    let bytes = values * size_of::<f32>() * BLOCK * keys;
    if bytes > 2 * STRIP_BYTES { BLOCK / 2 } else { BLOCK }
}

/// The segments that `starts` describes in `tokens` tokens: disjoint and ascending, whatever the starts are.
pub(super) fn segments(starts: &[i32], tokens: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut end = 0;
    starts.windows(2).map(move |pair| {
        let [first, last] = [pair[0], pair[1]].map(|start| (start.max(0) as usize).min(tokens));
        let segment = end.max(first)..last.max(end.max(first));
        end = segment.end;
        segment
    })
}

/// The queries of a segment in blocks that begin among `tokens`, counted from the start of the segment.
pub(super) fn queries_among(segment: &Range<usize>, tokens: &Range<usize>) -> Range<usize> {
    let at = |token: usize| {
        token
            .saturating_sub(segment.start)
            .next_multiple_of(BLOCK)
            .min(segment.len())
    };
    if segment.start >= tokens.end {
        return 0..0;
    }
    at(tokens.start)..at(tokens.end)
}

/// Cuts queries into a range for blocks of this many lanes and a range for one narrow block.
pub(super) fn wide_and_narrow(queries: Range<usize>, lanes: usize) -> [(Range<usize>, bool); 2] {
    let rest = queries.len() % BLOCK;
    let middle = match lanes {
        BLOCK if rest > BLOCK / 2 => queries.end,
        BLOCK => queries.end - rest,
        _ => queries.start,
    };
    [(queries.start..middle, true), (middle..queries.end, false)]
}
