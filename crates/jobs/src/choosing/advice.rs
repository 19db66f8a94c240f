//! What a result means, and what would improve it most.

use super::scoreboard::{Entry, Scored};
use lessen_base::Result;
use lessen_task::task::CheckedTask;

/// What the scores mean, a sentence each.
pub(super) fn verdict(guess: &Entry, entries: &[Entry], best: usize) -> Vec<String> {
    let mut all = Vec::new();
    let (Some(own), Some(least)) = (entries[best].first(), guess.first()) else {
        return all;
    };
    if own.gain() <= least.gain() {
        all.push(format!(
            "nothing was learned: {} has {} {}, and {} has {}; no better answer is known for these columns",
            entries[best].name,
            own.name,
            own.show(),
            guess.name,
            least.show()
        ));
    } else if own.interval.0 <= least.value && !own.is_error {
        all.push(format!(
            "hardly anything was learned: the interval of {} reaches down to {} ({})",
            entries[best].name,
            guess.name,
            least.show()
        ));
    }
    if let Some(other) = entries.iter().enumerate().find(|(number, _)| *number != best) {
        all.push(compared(&entries[best], other.1));
    }
    all
}

/// How the best model compares with the other one.
fn compared(best: &Entry, other: &Entry) -> String {
    let show = |entry: &Entry| entry.first().map_or(String::new(), Scored::show);
    let apart = match (best.first(), other.first()) {
        (Some(own), Some(second)) => own.interval.0 > second.value,
        _ => false,
    };
    let how = if apart {
        "is better than"
    } else {
        "is at least as good as"
    };
    format!(
        "the {} model ({}) {how} the {} model ({}) on held-out examples, so it is the result",
        best.name,
        show(best),
        other.name,
        show(other)
    )
}

/// What would help most, a sentence each.
///
/// # Errors
/// Data that cannot be read any more.
pub(super) fn advice(guess: &Entry, best: &Entry, task: &CheckedTask, is_linear: bool) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let config = task.config();
    let (Some(own), Some(_)) = (best.first(), guess.first()) else {
        return Ok(all);
    };
    let width = own.interval.1 - own.interval.0;
    if own.is_share && width > 0.06 {
        all.push(format!(
            "the held-out examples are few: {} is known to {:.0} points only; more rows would tell",
            own.name,
            100.0 * width / 2.0
        ));
    }
    let reads_texts = task.model().image().is_none();
    if reads_texts && config.model.init.is_none() && own.is_share && own.value < 0.95 {
        all.push(
            "what would help most: --init with the folder of a pretrained model (a MiniLM or BERT from the Hub)"
                .to_string(),
        );
    } else if is_linear && own.is_share && own.value < 0.95 {
        all.push("what would help most: more rows, or more --minutes".to_string());
    }
    Ok(all)
}
