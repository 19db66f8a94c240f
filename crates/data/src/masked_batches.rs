//! Batches of texts with masked tokens, for masked language models.

use lessen_base::{Error, Result, SplitMix64};

use crate::batch::{Batch, Field, IGNORE};
use crate::batching::{Batches, Batching, Members};
use crate::cache::{Entry, TokenCache};
use crate::encoded_rows::{EncodedRows, Largest, RowWriter};
use crate::epoch::Order;
use crate::example_batches::check_sizes;
use crate::packed_texts::{PackedTexts, Turn};
use crate::packing::Row;
use crate::parallel::in_parallel;
use crate::text::TextSplit;
use crate::tokenizer::Tokenizer;

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

/// Texts whose tokens are masked anew in every batch (Liu et al. 2019): of the tokens of a batch, special ones
/// excepted, a share is drawn by seed and step; of these, 80 % are masked, 10 % become any token of the vocabulary and
/// 10 % stay. All of them are to be predicted. See [`Batch`] for the fields.
///
/// A text is a line, cut after the tokens that fit, or a window over the tokens of all lines, one line after the other.
/// Blank lines are skipped. Evaluations draw by their number alone, so that they mask the same in every run.
pub struct MaskedBatches {
    /// Ids without special tokens: lines or windows.
    rows: EncodedRows,
    /// The special tokens before and after a text.
    around: (Vec<i32>, Vec<i32>),
    mask: i32,
    vocab_size: usize,
    pad: i32,
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
        let text = || std::iter::once(Ok(text.to_string()));
        let masked = Masked::new(tokenizer, max_length, masking)?;
        let rows = masked.rows(None, text())?;
        masked.batches(rows, Batching::Examples(batch), order)
    }

    /// Encodes a text in files, block by block; a large one goes to the cache.
    ///
    /// # Errors
    /// As [`MaskedBatches::new`]; a batch of fewer tokens than a text has; a file or cache that cannot be read or
    /// written.
    pub fn of(
        text: &TextSplit,
        tokenizer: &Tokenizer,
        (max_length, masking): (usize, Masking),
        cache: Option<&TokenCache>,
        batching: Batching,
        order: Order,
    ) -> Result<MaskedBatches> {
        let masked = Masked::new(tokenizer, max_length, masking)?;
        let form = if masking.lines { max_length } else { 0 };
        let key = || format!("masked {form}\n{:08x}\n{}", tokenizer.digest(), text.key());
        let entry = cache.and_then(|cache| cache.entry(text.bytes(), key()));
        let rows = masked.rows(entry, text.blocks())?;
        masked.batches(rows, batching, order)
    }

    /// Returns the number of texts: lines or windows.
    pub fn texts(&self) -> usize {
        self.rows.len()
    }
}

/// How a text is encoded.
struct Masked<'a> {
    tokenizer: &'a Tokenizer,
    mask: i32,
    around: (Vec<i32>, Vec<i32>),
    /// Tokens of a text beside the special ones.
    room: usize,
    masking: Masking,
}

impl Masked<'_> {
    fn new(tokenizer: &Tokenizer, max_length: usize, masking: Masking) -> Result<Masked<'_>> {
        check_sizes(max_length, 1)?;
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
        Ok(Masked {
            tokenizer,
            mask,
            around,
            room,
            masking,
        })
    }

    /// The lines or windows of a text that comes in blocks.
    fn rows(&self, entry: Option<Entry>, blocks: impl Iterator<Item = Result<String>>) -> Result<EncodedRows> {
        let largest = Largest {
            id: (self.tokenizer.vocab_size() - 1) as i32,
            beside: 0,
            length: i32::MAX,
        };
        let fill = |writer: &mut RowWriter| {
            let mut rest = String::new();
            for block in blocks {
                rest.push_str(&block?);
                let end = rest.rfind('\n').map_or(0, |end| end + 1);
                self.add(&rest[..end], writer)?;
                rest.drain(..end);
            }
            self.add(&rest, writer)
        };
        let rows = EncodedRows::new(entry, largest, None, fill)?;
        if rows.len() == 0 {
            return Err(Error::user("the text has no tokens; give one with some words"));
        }
        Ok(match self.masking.lines {
            true => rows,
            false => rows.in_windows(self.room),
        })
    }

    /// Adds the lines of a text that are not blank: each as a row, or all as one.
    fn add(&self, text: &str, writer: &mut RowWriter) -> Result<()> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut all = in_parallel(&lines, |line| self.tokenizer.encode(line))?;
        match self.masking.lines {
            true => all.iter_mut().for_each(|ids| ids.truncate(self.room)),
            false => all = vec![all.concat()],
        }
        let mut rows = all.iter().filter(|ids| !ids.is_empty());
        rows.try_for_each(|ids| writer.add(ids, &vec![0; ids.len()]))
    }

    fn batches(self, rows: EncodedRows, batching: Batching, order: Order) -> Result<MaskedBatches> {
        let special = self.around.0.len() + self.around.1.len();
        Ok(MaskedBatches {
            batches: Batches::new(rows.len(), batching, order, |text| rows.tokens_of(text) + special)?,
            rows,
            around: self.around,
            mask: self.mask,
            vocab_size: self.tokenizer.vocab_size(),
            pad: self.tokenizer.pad_id(),
            masking: self.masking,
        })
    }
}

impl PackedTexts for MaskedBatches {
    fn batches(&self) -> &Batches {
        &self.batches
    }

    /// The special ones are among them.
    fn tokens_of(&self, text: usize) -> usize {
        self.rows.tokens_of(text) + self.around.0.len() + self.around.1.len()
    }

    fn places_for(&self, tokens: usize) -> Option<usize> {
        Some(masked_places(tokens, self.masking.share))
    }

    fn collect(&self, members: &Members, turn: Turn) -> Result<Batch> {
        let (seed, stream, number) = match turn {
            Turn::Step(step) => (self.masking.seed, "masks", step),
            Turn::Evaluation(index) => (0, "masks of evaluations", index),
        };
        let mut random = SplitMix64::keyed(SplitMix64::named(seed, stream).next_u64(), number);
        let (examples, real) = (members.len(), self.tokens_of_all(members));
        let mut row = Row::new(self.batches.room(examples), real, self.pad);
        let (before, after) = &self.around;
        // The places of tokens that are not special.
        let (mut places, mut end) = (Vec::with_capacity(real), 0);
        for text in members.iter() {
            let (ids, _) = row.add(self.tokens_of(text));
            let own = before.len()..ids.len() - after.len();
            ids[..own.start].copy_from_slice(before);
            self.rows.read_ids(text, &mut ids[own.clone()])?;
            ids[own.end..].copy_from_slice(after);
            places.extend(end + own.start..end + own.end);
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
        Ok(Batch {
            fields,
            examples,
            tokens: real,
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

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
        let batch = lines.eval_batch(0).unwrap();
        assert_eq!(ints(&batch, "starts"), [0, 5, 11, 14]);
        assert_eq!(unmasked(&batch)[..14], [2, 5, 6, 7, 3, 2, 8, 9, 10, 11, 3, 2, 5, 3]);
        assert_eq!(ints(&batch, "positions")[..6], [0, 1, 2, 3, 4, 0]);
        assert_eq!((batch.examples, batch.tokens), (3, 14));

        let windows = batches(text, 6, 3, WINDOWS);
        let batch = windows.eval_batch(0).unwrap();
        assert_eq!(unmasked(&batch)[..15], [2, 5, 6, 7, 8, 3, 2, 9, 10, 11, 12, 3, 2, 5, 3]);
        assert_eq!(windows.texts(), 3);
    }

    #[test]
    fn a_share_of_the_tokens_is_masked_and_special_ones_never_are() {
        let text = "abcdefgh".repeat(1000);
        let source = batches(&text, 34, 10, WINDOWS);
        let (mut masked, mut same, mut other) = (0, 0, 0);
        for step in 0..50 {
            let batch = source.batch(step).unwrap();
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
        assert_eq!(source.batch(2).unwrap(), again.batch(2).unwrap());
        let places = |step| ints(&source.batch(step).unwrap(), "places");
        assert_ne!(places(2), places(2 + per_epoch));
        assert_ne!(
            source.batch(0).unwrap(),
            batches(&text, 10, 8, Masking { seed: 8, ..LINES }).batch(0).unwrap()
        );
        // Evaluations are the same whatever the seed.
        assert_eq!(
            source.eval_batch(1).unwrap(),
            batches(&text, 10, 8, Masking { seed: 8, ..LINES })
                .eval_batch(1)
                .unwrap()
        );
        assert_eq!(source.eval_batch(9).unwrap().examples, 0);
    }

    #[test]
    fn no_batch_is_larger_than_the_largest() {
        let text: String = (0..50).map(|i| "a".repeat(1 + i * i % 23) + "\n").collect();
        let source = batches(&text, 20, 4, LINES);
        let width = |batch: &Batch| batch.get("tokens").unwrap().shape()[1];
        let most = (0..60).map(|step| width(&source.batch(step).unwrap())).max();
        assert_eq!(source.largest_layout(0..60), most.map(|most| (4, most)));
        let most = (0..source.eval_batches())
            .map(|index| width(&source.eval_batch(index).unwrap()))
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

    #[test]
    fn a_cache_holds_what_memory_does_and_batches_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text.txt");
        let whole: String = (0..3000).map(|i| "abcdefgh"[i % 7..].to_string() + "\n").collect();
        std::fs::write(&path, &whole).unwrap();
        let options = crate::TextOptions {
            held_out: 1e-6,
            ..crate::TextOptions::default()
        };
        let text = crate::Text::read(&path, &options).unwrap().train;
        let cache = TokenCache::new(dir.path().join("cache"), 1);
        for (masking, batching) in [
            (LINES, Batching::Tokens(64)),
            (LINES, Batching::Grouped(8)),
            (WINDOWS, Batching::Examples(8)),
        ] {
            let new = |cache| MaskedBatches::of(&text, &tokenizer(), (8, masking), cache, batching, Order::Shuffled(2));
            let (memory, cached, again) = (
                new(None).unwrap(),
                new(Some(&cache)).unwrap(),
                new(Some(&cache)).unwrap(),
            );
            assert_eq!(memory.texts(), cached.texts());
            for step in [0, 3, memory.batches_per_epoch() - 1] {
                let batch = memory.batch(step).unwrap();
                assert_eq!(
                    (&batch, &batch),
                    (&cached.batch(step).unwrap(), &again.batch(step).unwrap())
                );
                assert!(batching != Batching::Tokens(64) || batch.tokens <= 64);
            }
        }
        assert_eq!(std::fs::read_dir(cache.folder()).unwrap().count(), 2);
    }

    #[test]
    fn a_cache_that_cannot_be_read_any_more_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text.txt");
        std::fs::write(&path, "abcdefgh\n".repeat(100)).unwrap();
        let text = crate::Text::read(&path, &crate::TextOptions::default()).unwrap().train;
        let cache = TokenCache::new(dir.path().join("cache"), 1);
        let (batching, order) = (Batching::Examples(4), Order::InOrder);
        let source = MaskedBatches::of(&text, &tokenizer(), (10, LINES), Some(&cache), batching, order).unwrap();
        assert!(source.eval_batch(5).is_ok());
        let entry = std::fs::read_dir(cache.folder())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        std::fs::File::options()
            .write(true)
            .open(entry.join("tokens"))
            .unwrap()
            .set_len(9)
            .unwrap();
        for error in [source.batch(5).unwrap_err(), source.eval_batch(5).unwrap_err()] {
            assert!(error.to_string().contains("cannot be read any more"), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn lines_go_on_from_block_to_block() {
        let tokenizer = tokenizer();
        let encoded = |masking, blocks: &[&str]| -> Vec<Vec<i32>> {
            let blocks = blocks.iter().map(|block| Ok(block.to_string()));
            let masked = Masked::new(&tokenizer, 6, masking).unwrap();
            let rows = masked.rows(None, blocks.collect::<Vec<_>>().into_iter()).unwrap();
            let read = |row| {
                let mut ids = vec![0; rows.tokens_of(row)];
                rows.read_ids(row, &mut ids).map(|()| ids)
            };
            (0..rows.len()).map(|row| read(row).unwrap()).collect()
        };
        for masking in [LINES, WINDOWS] {
            let whole = encoded(masking, &["ab\ncdefgh\n\nh"]);
            assert_eq!(encoded(masking, &["ab\ncd", "ef", "gh\n\n", "h"]), whole);
        }
        assert_eq!(encoded(LINES, &["ab\nc", "defgh"]), [vec![5, 6], vec![7, 8, 9, 10]]);
    }
}
