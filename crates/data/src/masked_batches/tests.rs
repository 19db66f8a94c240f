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
