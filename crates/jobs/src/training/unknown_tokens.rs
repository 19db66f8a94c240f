//! Tokens of the data that the vocabulary lacks.

use lessen_task::sources::Sources;
use serde_json::{Value, json};

/// Share of unknown tokens above which a tokenizer hardly belongs to the data.
const MANY: f64 = 0.05;

/// Numbers of unknown tokens and of all tokens, in the data of training and of evaluations; none where they are not
/// counted.
pub(super) struct UnknownTokens {
    training: Option<(u64, u64)>,
    dev: Option<(u64, u64)>,
}

impl UnknownTokens {
    /// The counts of a training phase's data.
    pub(super) fn of(sources: &Sources) -> UnknownTokens {
        UnknownTokens {
            training: sources.training.unknown_tokens(),
            dev: sources.dev.unknown_tokens(),
        }
    }

    fn shares(&self) -> [(&'static str, Option<f64>); 2] {
        let share = |counts: Option<(u64, u64)>| counts.map(|(unknown, all)| unknown as f64 / all.max(1) as f64);
        [("training", share(self.training)), ("dev", share(self.dev))]
    }

    /// A remark on unknown tokens, or a warning where there are many; none where there are none.
    pub(super) fn remark(&self) -> Option<String> {
        let shares = self.shares().map(|(_, share)| share.unwrap_or(0.0));
        if shares == [0.0; 2] {
            return None;
        }
        let shown = shares.map(percent);
        let what = format!(
            "{} of the tokens of the training data and {} of those of the evaluation data are unknown to the vocabulary",
            shown[0], shown[1]
        );
        Some(if shares.iter().any(|share| *share > MANY) {
            format!("warning: {what}; name the folder of a tokenizer for such texts with data.tokenizer")
        } else {
            what
        })
    }

    /// The shares as JSON.
    pub(super) fn to_json(&self) -> Value {
        self.shares()
            .map(|(name, share)| (name.to_string(), json!(share)))
            .into_iter()
            .collect()
    }
}

/// A share in words: never 0 where it is positive.
fn percent(share: f64) -> String {
    match share {
        0.0 => "none".to_string(),
        share if share < 1e-4 => "less than 0.01 %".to_string(),
        share => format!("{:.2} %", 100.0 * share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_and_many_warn() {
        let of = |training, dev| UnknownTokens { training, dev };
        assert_eq!(of(Some((0, 9)), None).remark(), None);
        assert_eq!(
            of(Some((0, 9)), Some((1, 400))).remark().unwrap(),
            "none of the tokens of the training data and 0.25 % of those of the evaluation data are unknown to the \
             vocabulary"
        );
        let many = of(Some((1, 100_000)), Some((6, 100))).remark().unwrap();
        assert!(
            many.starts_with("warning: less than 0.01 % of the tokens of the training data and 6.00 % of"),
            "{many}"
        );
        assert_eq!(
            of(Some((1, 4)), None).to_json(),
            json!({ "training": 0.25, "dev": null })
        );
    }
}
