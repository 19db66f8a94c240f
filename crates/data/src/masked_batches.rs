//! Batches of texts with masked tokens, for masked language models.

use std::collections::BTreeSet;
use std::ops::Range;
use std::thread;

use lessen_base::{Error, Result, SplitMix64};

use crate::batch::{Batch, Field, IGNORE};
use crate::batching::{Batches, Batching, Members};
use crate::epoch::Order;
use crate::example_batches::check_sizes;
use crate::packing::Row;
use crate::source::Source;
use crate::tokenizer::Tokenizer;
use crate::tokens::count_in;

/// How a text is cut and masked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Masking {
    /// Share of the tokens of a batch that are to be predicted, above 0 and below 1.
    pub share: f64,
    /// Whether each line is a text of its own; otherwise texts are windows over all lines.
    pub lines: bool,
    /// What the choice of tokens is drawn from, together with the step.
    pub seed: u64,
}

/// Share of the chosen tokens that are masked, and of those that become any token; the others stay (Devlin et al.
/// 2019).
const MASKED: f64 = 0.8;
const REPLACED: f64 = 0.1;

/// Lines that are encoded at once.
const BLOCK: usize = 1 << 14;

/// Texts whose tokens are masked anew in every batch (Liu et al. 2019): of the tokens of a batch, special ones
/// excepted, a share is drawn by seed and step; of these, 80 % are masked, 10 % become any token of the vocabulary and
/// 10 % stay. All of them are to be predicted. See [`Batch`] for the fields.
///
/// A text is a line, cut after the tokens that fit, or a window over the tokens of all lines, one line after the other.
/// Blank lines are skipped. Evaluations draw by their number alone, so that they mask the same in every run.
pub struct MaskedBatches {
    /// Ids without special tokens.
    tokens: Vec<i32>,
    /// Start of each text in `tokens`, then the end of the last one.
    starts: Vec<usize>,
    /// The special tokens before and after a text.
    around: (Vec<i32>, Vec<i32>),
    mask: i32,
    vocab_size: usize,
    pad: i32,
    /// How many tokens stand for what the vocabulary lacks, if it has a token for that.
    unknown: Option<u64>,
    masking: Masking,
    batches: Batches,
}

impl MaskedBatches {
    /// Encodes a text for batches of `batch` (`B`) texts of at most `max_length` tokens, special ones included.
    ///
    /// # Errors
    /// A batch or length of 0; a length that leaves no room for text; a tokenizer without a mask token, or that cannot
    /// encode the text; a text without tokens.
    pub fn new(
        text: &str,
        tokenizer: &Tokenizer,
        max_length: usize,
        batch: usize,
        order: Order,
        masking: Masking,
    ) -> Result<MaskedBatches> {
        check_sizes(max_length, batch)?;
        let mask = tokenizer.mask_id().ok_or_else(|| {
            Error::user(
                "the tokenizer has no mask token, such as [MASK] or <mask>; use that of a masked language model \
                 (data.tokenizer)",
            )
        })?;
        let around = tokenizer.around_a_text()?;
        let special = around.0.len() + around.1.len();
        let room = max_length.saturating_sub(special);
        if room == 0 {
            return Err(Error::user(format!(
                "a length of {max_length} leaves no room for text beside {special} special tokens; raise \
                 data.max_length"
            )));
        }
        let (mut tokens, mut starts) = (Vec::new(), vec![0]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        for block in lines.chunks(BLOCK) {
            for mut ids in encode(block, tokenizer)? {
                if masking.lines {
                    ids.truncate(room);
                }
                tokens.extend(ids);
                if masking.lines && starts.last() != Some(&tokens.len()) {
                    starts.push(tokens.len());
                }
            }
        }
        if tokens.is_empty() {
            return Err(Error::user("the text has no tokens; give one with some words"));
        }
        if !masking.lines {
            starts = (0..tokens.len()).step_by(room).chain([tokens.len()]).collect();
        }
        Ok(MaskedBatches {
            batches: Batches::new(starts.len() - 1, Batching::Examples(batch), order, |_| 0)?,
            unknown: tokenizer.unknown_id().map(|id| count_in(&tokens, id)),
            tokens,
            starts,
            around,
            mask,
            vocab_size: tokenizer.vocab_size(),
            pad: tokenizer.pad_id(),
            masking,
        })
    }

    /// Returns the number of texts: lines or windows.
    pub fn texts(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of tokens of a text with the special ones.
    fn tokens_of(&self, text: usize) -> usize {
        self.starts[text + 1] - self.starts[text] + self.around.0.len() + self.around.1.len()
    }

    /// Returns the number of tokens of a batch.
    fn tokens_of_all(&self, members: &Members) -> usize {
        members.iter().map(|text| self.tokens_of(text)).sum()
    }

    fn collect(&self, members: &Members, mut random: SplitMix64) -> Batch {
        let (examples, real) = (members.len(), self.tokens_of_all(members));
        let mut row = Row::new(self.batches.room(examples), real, self.pad);
        let (before, after) = &self.around;
        // The places of tokens that are not special.
        let (mut places, mut end) = (Vec::with_capacity(real), 0);
        for text in members.iter() {
            let (ids, _) = row.add(self.tokens_of(text));
            let own = &self.tokens[self.starts[text]..self.starts[text + 1]];
            let all = before.iter().chain(own).chain(after);
            ids.iter_mut().zip(all).for_each(|(place, id)| *place = *id);
            places.extend(end + before.len()..end + before.len() + own.len());
            end += ids.len();
        }
        let tokens = row.tokens();
        let room = masked_places(tokens.len(), self.masking.share);
        draw(&mut places, self.masking.share, &mut random);
        let mut labels = vec![IGNORE; room];
        for (label, &place) in labels.iter_mut().zip(&places) {
            *label = tokens[place];
            let kind = random.unit();
            if kind < MASKED {
                tokens[place] = self.mask;
            } else if kind < MASKED + REPLACED {
                tokens[place] = random.below(self.vocab_size as u64) as i32;
            }
        }
        let mut chosen: Vec<i32> = places.into_iter().map(|place| place as i32).collect();
        chosen.resize(room, 0);
        let mut fields = row.into_fields();
        fields.push(("places".into(), Field::i32([room], chosen)));
        fields.push(("labels".into(), Field::i32([room], labels)));
        Batch {
            fields,
            examples,
            tokens: real,
        }
    }
}

impl Source for MaskedBatches {
    fn batch(&self, step: u64) -> Batch {
        let seed = SplitMix64::named(self.masking.seed, "masks").next_u64();
        self.collect(&self.batches.of_step(step), SplitMix64::keyed(seed, step))
    }

    fn batches_per_epoch(&self) -> u64 {
        self.batches.per_epoch()
    }

    fn eval_batches(&self) -> u64 {
        self.batches.in_order()
    }

    fn unknown_tokens(&self) -> Option<(u64, u64)> {
        self.unknown.map(|count| (count, self.tokens.len() as u64))
    }

    fn eval_batch(&self, index: u64) -> Batch {
        let seed = SplitMix64::named(0, "masks of evaluations").next_u64();
        self.collect(&self.batches.of_index(index), SplitMix64::keyed(seed, index))
    }

    fn layouts(&self, steps: Range<u64>) -> BTreeSet<(usize, usize)> {
        self.batches.layouts(steps, |text| self.tokens_of(text))
    }

    fn eval_layouts(&self, batches: Range<u64>) -> BTreeSet<(usize, usize)> {
        self.batches.eval_layouts(batches, |text| self.tokens_of(text))
    }

    fn masked_places(&self, tokens: usize) -> Option<usize> {
        Some(masked_places(tokens, self.masking.share))
    }
}

/// Returns the number of places for masked tokens, `M`, in a batch of `tokens` tokens of which this share is masked: at
/// least 1.
pub fn masked_places(tokens: usize, share: f64) -> usize {
    ((tokens as f64 * share).ceil() as usize).max(1)
}

/// Keeps a share of the places, in order: as many as are nearest to it, and one at least where there are any.
fn draw(places: &mut Vec<usize>, share: f64, random: &mut SplitMix64) {
    let count = ((places.len() as f64 * share).round() as usize)
        .max(1)
        .min(places.len());
    for taken in 0..count {
        let other = taken + random.below((places.len() - taken) as u64) as usize;
        places.swap(taken, other);
    }
    places.truncate(count);
    places.sort_unstable();
}

/// Encodes lines on all cores, without special tokens.
fn encode(lines: &[&str], tokenizer: &Tokenizer) -> Result<Vec<Vec<i32>>> {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    let encode_share = |lines: &[&str]| -> Result<Vec<_>> { lines.iter().map(|line| tokenizer.encode(line)).collect() };
    let shares: Result<Vec<Vec<_>>> = thread::scope(|scope| {
        let threads: Vec<_> = lines
            .chunks(lines.len().div_ceil(threads).max(1))
            .map(|lines| scope.spawn(|| encode_share(lines)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Ok(shares?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tokenizer of the characters a to h (ids 5 to 12) with `[CLS]` (2), `[SEP]` (3) and `[MASK]` (4).
    fn tokenizer() -> Tokenizer {
        Tokenizer::marked_characters(["abcdefgh"], 1)
    }

    fn batches(text: &str, max_length: usize, batch: usize, masking: Masking) -> MaskedBatches {
        MaskedBatches::new(text, &tokenizer(), max_length, batch, Order::Shuffled(3), masking).unwrap()
    }

    const WINDOWS: Masking = Masking {
        share: 0.15,
        lines: false,
        seed: 7,
    };
    const LINES: Masking = Masking { lines: true, ..WINDOWS };

    fn ints(batch: &Batch, name: &str) -> Vec<i32> {
        batch.get(name).unwrap().as_i32().unwrap().to_vec()
    }

    /// The tokens of a batch before they were masked.
    fn unmasked(batch: &Batch) -> Vec<i32> {
        let mut tokens = ints(batch, "tokens");
        for (place, label) in ints(batch, "places").into_iter().zip(ints(batch, "labels")) {
            if label != IGNORE {
                tokens[place as usize] = label;
            }
        }
        tokens
    }

    #[test]
    fn lines_are_texts_and_windows_go_over_all_lines() {
        let text = "abc\n\n  \ndefgh\na\n";
        let lines = batches(text, 6, 3, LINES);
        let batch = lines.eval_batch(0);
        assert_eq!(ints(&batch, "starts"), [0, 5, 11, 14]);
        assert_eq!(unmasked(&batch)[..14], [2, 5, 6, 7, 3, 2, 8, 9, 10, 11, 3, 2, 5, 3]);
        assert_eq!(ints(&batch, "positions")[..6], [0, 1, 2, 3, 4, 0]);
        assert_eq!((batch.examples, batch.tokens), (3, 14));

        let windows = batches(text, 6, 3, WINDOWS);
        let batch = windows.eval_batch(0);
        assert_eq!(unmasked(&batch)[..15], [2, 5, 6, 7, 8, 3, 2, 9, 10, 11, 12, 3, 2, 5, 3]);
        assert_eq!(windows.texts(), 3);
    }

    #[test]
    fn a_share_of_the_tokens_is_masked_and_special_ones_never_are() {
        let text = "abcdefgh".repeat(1000);
        let source = batches(&text, 34, 10, WINDOWS);
        let (mut masked, mut same, mut other) = (0, 0, 0);
        for step in 0..50 {
            let batch = source.batch(step);
            let (tokens, places, labels) = (ints(&batch, "tokens"), ints(&batch, "places"), ints(&batch, "labels"));
            let count = labels.iter().filter(|&&label| label != IGNORE).count();
            let texts = batch.examples * 32;
            assert!(texts == 320 || step % 25 == 24, "windows are whole");
            assert_eq!(count, (texts as f64 * 0.15).round() as usize);
            assert_eq!(labels.len(), masked_places(tokens.len(), 0.15));
            assert!(places[..count].is_sorted_by(|a, b| a < b), "no place is chosen twice");
            for (&place, &label) in places.iter().zip(&labels[..count]) {
                assert!((5..13).contains(&label), "special tokens are not predicted");
                match tokens[place as usize] {
                    4 => masked += 1,
                    token if token == label => same += 1,
                    _ => other += 1,
                }
            }
        }
        let all = f64::from(masked + same + other);
        // A token that becomes any of 13 is itself, or a mask, in one case of 13 each.
        for (count, share) in [
            (masked, 0.8 + 0.1 / 13.0),
            (same, 0.1 + 0.1 / 13.0),
            (other, 0.1 * 11.0 / 13.0),
        ] {
            assert!(
                (f64::from(count) / all - share).abs() < 0.03,
                "{count} of {all} instead of {share}"
            );
        }
    }

    #[test]
    fn masks_are_functions_of_seed_and_step_and_change_with_the_epoch() {
        let text = "abcdefgh\n".repeat(40);
        let source = batches(&text, 10, 8, LINES);
        let again = batches(&text, 10, 8, LINES);
        let per_epoch = source.batches_per_epoch();
        assert_eq!(per_epoch, 5);
        assert_eq!(source.batch(2), again.batch(2));
        let places = |step| ints(&source.batch(step), "places");
        assert_ne!(places(2), places(2 + per_epoch));
        assert_ne!(
            source.batch(0),
            batches(&text, 10, 8, Masking { seed: 8, ..LINES }).batch(0)
        );
        // Evaluations are the same whatever the seed.
        assert_eq!(
            source.eval_batch(1),
            batches(&text, 10, 8, Masking { seed: 8, ..LINES }).eval_batch(1)
        );
        assert_eq!(source.eval_batch(9).examples, 0);
    }

    #[test]
    fn no_batch_is_larger_than_the_largest() {
        let text: String = (0..50).map(|i| "a".repeat(1 + i * i % 23) + "\n").collect();
        let source = batches(&text, 20, 4, LINES);
        let width = |batch: &Batch| batch.get("tokens").unwrap().shape()[1];
        let most = (0..60).map(|step| width(&source.batch(step))).max();
        assert_eq!(source.largest_layout(0..60), most.map(|most| (4, most)));
        let most = (0..source.eval_batches())
            .map(|index| width(&source.eval_batch(index)))
            .max();
        let largest = source.largest_eval_layout(0..source.eval_batches());
        assert_eq!(largest, most.map(|most| (4, most)));
        assert_eq!(source.masked_places(100), Some(15));
    }

    #[test]
    fn what_cannot_be_masked_is_told() {
        let refused = |text: &str, tokenizer: &Tokenizer, length| {
            let refused = MaskedBatches::new(text, tokenizer, length, 2, Order::InOrder, LINES);
            refused.map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused("abc", &Tokenizer::characters(["abc"], 1), 8).starts_with("the tokenizer has no mask token"));
        assert_eq!(
            refused("abc", &tokenizer(), 2),
            "a length of 2 leaves no room for text beside 2 special tokens; raise data.max_length"
        );
        assert_eq!(
            refused(" \n\n", &tokenizer(), 8),
            "the text has no tokens; give one with some words"
        );
    }
}
