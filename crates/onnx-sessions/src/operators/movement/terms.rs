//! Counts of runs of words.

use std::collections::HashMap;

use lessen_base::Result;

use super::extents::{bounded, extents};
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[("", "TfIdfVectorizer", count_terms)];

/// A text or an integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Word<'c> {
    Text(&'c [u8]),
    Number(i64),
}

/// The runs that are counted, as a tree from their first word on.
struct Runs<'c> {
    /// The node that follows a node with a word; node 0 is before the first word.
    next: HashMap<(usize, Word<'c>), usize>,
    /// The run that ends at a node.
    ends: Vec<Option<usize>>,
}

impl<'c> Runs<'c> {
    fn new() -> Runs<'c> {
        Runs {
            next: HashMap::new(),
            ends: vec![None],
        }
    }

    fn add(&mut self, words: &[Word<'c>], run: usize) {
        let mut node = 0;
        for word in words {
            let new = self.ends.len();
            node = *self.next.entry((node, *word)).or_insert(new);
            if node == new {
                self.ends.push(None);
            }
        }
        self.ends[node] = Some(run);
    }
}

fn count_terms(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let input = call.tensor(0)?;
    let (rows, columns) = match *input.shape() {
        [columns] => (None, columns),
        [rows, columns] => (Some(rows), columns),
        _ => return call.refused("its input is neither a list nor a matrix"),
    };
    let numbers;
    let words: Vec<Word<'_>> = match (input.data(), input.integers()) {
        (Data::Text(texts), _) => texts.iter().map(|text| Word::Text(text.as_bytes())).collect(),
        (_, Some(all)) => {
            numbers = all;
            numbers.iter().map(|number| Word::Number(*number)).collect()
        }
        (_, None) => return call.refused("its input has neither texts nor integers"),
    };
    let coordinates = extents(call, &call.ints("ngram_indexes").unwrap_or_default())?;
    let lengths = lengths(call)?;
    let runs = runs(call, &lengths, coordinates.len())?;
    let width = coordinates.iter().max().map_or(0, |most| most.saturating_add(1));
    let shape = [rows.unwrap_or(1), width];
    let mut counts = vec![0f32; bounded(call, &shape, &Data::F32(Vec::new()))?];
    if width > 0 && columns > 0 {
        for (row, counts) in words.chunks_exact(columns).zip(counts.chunks_exact_mut(width)) {
            count(call, row, &lengths, &runs, |run| counts[coordinates[run]] += 1.0)?;
        }
    }
    weigh(call, &coordinates, width, &mut counts)?;
    one(HostTensor::new(
        if rows.is_some() { &shape } else { &shape[1..] },
        counts,
    )?)
}

/// How many words a run has, at least and at most, and how many are left out between two of them at most.
struct Lengths {
    least: usize,
    most: usize,
    skips: usize,
}

fn lengths(call: &HostCall<'_>) -> Result<Lengths> {
    let number = |name| match call
        .attribute(name)
        .and_then(|attribute| usize::try_from(attribute.i).ok())
    {
        Some(number) => Ok(number),
        None => call.refused(format!("its attribute {name} is no number from 0 on")),
    };
    let lengths = Lengths {
        least: number("min_gram_length")?,
        most: number("max_gram_length")?,
        skips: number("max_skip_count")?,
    };
    match lengths.least {
        1.. if lengths.least <= lengths.most => Ok(lengths),
        _ => call.refused(format!("runs of {} to {} words are none", lengths.least, lengths.most)),
    }
}

/// The runs of the pool whose lengths are counted.
fn runs<'c>(call: &'c HostCall<'_>, lengths: &Lengths, expected: usize) -> Result<Runs<'c>> {
    let texts = call.attribute("pool_strings").map_or(&[][..], |pool| &pool.strings);
    let numbers = call.attribute("pool_int64s").map_or(&[][..], |pool| &pool.ints);
    let texts = texts.iter().map(|text| Word::Text(text));
    let pool: Vec<Word<'_>> = texts
        .chain(numbers.iter().map(|number| Word::Number(*number)))
        .collect();
    let mut bounds = extents(call, &call.ints("ngram_counts").unwrap_or_default())?;
    bounds.push(pool.len());
    let mut runs = Runs::new();
    let mut found = 0;
    for (number, pair) in bounds.windows(2).enumerate() {
        let len = number + 1;
        let Some(words) = pool.get(pair[0]..pair[1]).filter(|words| words.len() % len == 0) else {
            return call.refused(format!("its runs of {len} words are cut off"));
        };
        for run in words.chunks_exact(len) {
            if (lengths.least..=lengths.most).contains(&len) {
                runs.add(run, found);
            }
            found += 1;
        }
    }
    if found == expected {
        Ok(runs)
    } else {
        call.refused(format!("it has {found} runs of words, but {expected} indices"))
    }
}

/// Calls `each` with every run of the pool that is in a row.
///
/// # Errors
/// A row that takes too many steps.
fn count(
    call: &HostCall<'_>,
    row: &[Word<'_>],
    lengths: &Lengths,
    runs: &Runs<'_>,
    mut each: impl FnMut(usize),
) -> Result<()> {
    const MOST_STEPS: usize = 1 << 30;
    let mut steps = 0usize;
    for skipped in 0..=lengths.skips.min(row.len().saturating_sub(1)) {
        for start in 0..row.len() {
            let mut node = 0;
            for (len, word) in (1..=lengths.most).zip(row[start..].iter().step_by(skipped + 1)) {
                steps += 1;
                let Some(next) = runs.next.get(&(node, *word)) else {
                    break;
                };
                node = *next;
                // A single word has none between its words, so it is counted once.
                if let Some(run) = runs.ends[node].filter(|_| len > 1 || skipped == 0) {
                    each(run);
                }
            }
        }
        if steps > MOST_STEPS {
            return call.refused("its rows have too many runs of words");
        }
    }
    Ok(())
}

/// Replaces counts by weights, as the mode says.
fn weigh(call: &HostCall<'_>, coordinates: &[usize], width: usize, counts: &mut [f32]) -> Result<()> {
    let is_counted = match call.text("mode").as_deref() {
        Some("TF") => return Ok(()),
        Some("IDF") => false,
        Some("TFIDF") => true,
        mode => return call.refused(format!("the mode {} is not known", mode.unwrap_or_default())),
    };
    let mut weights = vec![1f32; width];
    if let Some(own) = call.floats("weights") {
        if own.len() != coordinates.len() {
            return call.refused("its weights are not one for each run of words");
        }
        coordinates
            .iter()
            .zip(own)
            .for_each(|(coordinate, weight)| weights[*coordinate] = weight);
    }
    for row in counts.chunks_exact_mut(width.max(1)) {
        for (count, weight) in row.iter_mut().zip(&weights) {
            let times = if is_counted { *count } else { count.min(1.0) };
            *count = times * weight;
        }
    }
    Ok(())
}
