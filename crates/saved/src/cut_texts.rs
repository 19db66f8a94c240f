//! Texts whose ends are left out, since they have more tokens than `data.max_length`.

use lessen_task::sources::Sources;
use lessen_task::wording::{counted, report, tell};
use serde_json::{Value, json};

/// Share of cut texts above which most people would want another length.
const MANY: f64 = 0.05;

/// How many texts are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutTexts {
    /// The number of texts that are cut.
    pub cut: u64,
    /// The number of all texts.
    pub all: u64,
    /// The tokens that a text may have.
    pub length: usize,
}

impl CutTexts {
    /// The counts of a source of batches, if it cuts texts; see [`lessen_data::Source::cut_texts`].
    pub fn of(counts: Option<(u64, u64)>, length: usize) -> Option<CutTexts> {
        counts.map(|(cut, all)| CutTexts { cut, all, length })
    }

    /// The counts of the data of training and of evaluations, under `training` and `dev`.
    pub fn of_sources(sources: &Sources, length: usize) -> [(&'static str, Option<CutTexts>); 2] {
        [("training", &sources.training), ("dev", &sources.dev)]
            .map(|(name, source)| (name, CutTexts::of(source.cut_texts(), length)))
    }

    /// The share of texts that are cut.
    pub fn share(self) -> f64 {
        self.cut as f64 / self.all.max(1) as f64
    }

    /// Adds the counts of a source of batches, if it cuts texts.
    pub(crate) fn add(&mut self, counts: Option<(u64, u64)>) {
        let (cut, all) = counts.unwrap_or_default();
        self.cut += cut;
        self.all += all;
    }

    /// The counts as JSON: `{"count": 3, "share": 0.25, "max_length": 128}`.
    pub fn to_json(self) -> Value {
        json!({ "count": self.cut, "share": self.share(), "max_length": self.length })
    }

    /// Says on stderr that texts are cut: as a warning where there are many, otherwise as a note, which is not shown
    /// where no progress is.
    pub fn tell(self) {
        if let Some(line) = remark(&[(self, "")]) {
            if is_warning(&line) { tell(&line) } else { report(&line) }
        }
    }
}

/// A remark on the cut texts of several data, each with the end of its noun, such as ` of the training data`; none
/// where no text is cut.
pub fn remark(of: &[(CutTexts, &str)]) -> Option<String> {
    let cutting = of.iter().find(|(texts, _)| texts.cut > 0)?;
    let shown = of.iter().map(|(texts, whose)| {
        let (all, share) = (counted(texts.all, "text"), 100.0 * texts.share());
        format!("{} of {all}{whose} ({share:.2} %)", texts.cut)
    });
    let shown = shown.collect::<Vec<String>>().join(" and ");
    let what = format!("data.max_length = {} cuts the ends of {shown}", cutting.0.length);
    Some(if of.iter().any(|(texts, _)| texts.share() > MANY) {
        format!("warning: {what}; raise it, as far as the model's positions reach, or split the texts")
    } else {
        format!("note: {what}")
    })
}

/// Whether a remark is a warning.
pub fn is_warning(remark: &str) -> bool {
    remark.starts_with("warning: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_texts_are_told_and_many_warn() {
        let of = |cut, all| CutTexts { cut, all, length: 8 };
        assert_eq!(remark(&[(of(0, 9), "")]), None);
        assert_eq!(
            remark(&[(of(1, 20), "")]).unwrap(),
            "note: data.max_length = 8 cuts the ends of 1 of 20 texts (5.00 %)"
        );
        assert_eq!(
            remark(&[
                (of(0, 1), " of the training data"),
                (of(2, 39), " of the evaluation data")
            ])
            .unwrap(),
            "warning: data.max_length = 8 cuts the ends of 0 of 1 text of the training data (0.00 %) and 2 of 39 texts of \
             the evaluation data (5.13 %); raise it, as far as the model's positions reach, or split the texts"
        );
        assert_eq!(
            of(1, 4).to_json(),
            json!({ "count": 1, "share": 0.25, "max_length": 8 })
        );
    }
}
