//! What a result means, and what would improve it most.

use super::scoreboard::{Entry, Scored};

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

/// What would help most, a sentence each. `is_linear` says whether the best model is the linear one, and `can_start`
/// whether a pretrained model could be started from, and was not.
pub(super) fn advice(guess: &Entry, best: &Entry, is_linear: bool, can_start: bool) -> Vec<String> {
    let mut all = Vec::new();
    let (Some(own), Some(_)) = (best.first(), guess.first()) else {
        return all;
    };
    let width = own.interval.1 - own.interval.0;
    if own.is_share && width > 0.06 {
        all.push(format!(
            "the held-out examples are few: {} is known to {:.0} points only; more rows would tell",
            own.name,
            100.0 * width / 2.0
        ));
    }
    if can_start && own.is_share && own.value < 0.95 {
        all.push(
            "what would help most: --init with the folder of a pretrained model (a MiniLM or BERT from the Hub)"
                .to_string(),
        );
    } else if is_linear && own.is_share && own.value < 0.95 {
        all.push("what would help most: more rows, or more --minutes".to_string());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choosing::scoreboard::of_answers;
    use lessen_saved::saved_run::judged::{Judged, Known};

    #[test]
    fn a_pretrained_model_is_advised_only_where_none_was_tried() {
        // Three of four answers are right.
        let judged = |example: usize| Judged {
            example,
            logits: vec![1.0, 0.0],
            known: Known::Class(usize::from(example.is_multiple_of(4))),
        };
        let answers: Vec<Judged> = (0..400).map(judged).collect();
        let entry = of_answers("linear", &answers);
        let of = |can_start| advice(&entry, &entry, true, can_start).concat();
        assert!(of(true).contains("--init"), "{}", of(true));
        assert!(
            !of(false).contains("--init") && of(false).contains("--minutes"),
            "{}",
            of(false)
        );
    }
}
