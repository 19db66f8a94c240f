//! Batches of texts with masked tokens, for masked language models.

use lessen_base::{Error, Result, SplitMix64};

use crate::batch::{Batch, Field, IGNORE};
use crate::batching::{Batches, Batching, Members};
use crate::cache::{Entry, TokenCache};
use crate::encoded_rows::{EncodedRows, Numbers, RowWriter};
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

/// Share of the chosen tokens that are masked, and share that become any token; the others stay (Devlin et al.
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
        let key = || {
            let (unknown, digest, text) = (tokenizer.unknown_id(), tokenizer.digest(), text.key());
            format!("cut masked {form} {unknown:?}\n{digest:08x}\n{text}")
        };
        let entry = cache.and_then(|cache| cache.entry(text.file_bytes(), key()));
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
        let numbers = Numbers {
            id: (self.tokenizer.vocab_size() - 1) as i32,
            unknown: self.tokenizer.unknown_id(),
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
        let rows = EncodedRows::new(entry, numbers, None, fill)?;
        if rows.len() == 0 {
            return Err(Error::user("the text has no tokens; give one with some words"));
        }
        Ok(if self.masking.lines {
            rows
        } else {
            rows.in_windows(self.room)
        })
    }

    /// Adds the lines of a text that are not blank: each as a row, or all as one.
    fn add(&self, text: &str, writer: &mut RowWriter) -> Result<()> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut all = in_parallel(&lines, |line| self.tokenizer.encode(line))?;
        if self.masking.lines {
            writer.count_cut(all.iter().filter(|ids| ids.len() > self.room).count());
            all.iter_mut().for_each(|ids| ids.truncate(self.room));
        } else {
            all = vec![all.concat()]
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

    fn unknown(&self) -> Option<(u64, u64)> {
        self.rows.unknown()
    }

    fn cut(&self) -> Option<(u64, u64)> {
        let rows = self.rows.len() as u64;
        self.masking.lines.then_some((self.rows.cut(), rows))
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
        let mut row = Row::new(self.layout(members, turn), real, self.pad);
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

/// Returns the number of places for masked tokens, `M`, in a batch of `tokens` tokens, where this share is masked: at
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
mod tests;
