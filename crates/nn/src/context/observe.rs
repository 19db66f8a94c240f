//! Values that a model lets be observed, and what is recorded of them.

use std::collections::BTreeSet;

use lessen_base::Result;
use lessen_graph::{Tensor, TraceRef};

use super::{Cx, join};
use crate::statistics::{Selection, Statistic, statistics_of};

/// Statistics, or values, of a graph that records them.
pub(super) struct Record {
    selection: Selection,
    /// Whether the values themselves are recorded in place of statistics.
    takes_values: bool,
    /// Names of all values that the model observes, recorded or not.
    names: Vec<String>,
    /// Names of the values that are recorded, each another one.
    taken: BTreeSet<String>,
    recorded: Vec<Recorded>,
}

/// A statistic of an observed value, or the value itself.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Name of the value, which is unique, and of the statistic: `transformer.h.0.mlp.pre_activation/mean`. The value
    /// itself has the first part alone.
    pub name: String,
    /// The statistic, `f32[]`, or `f32[bins]` for a histogram. The value itself has its own type.
    pub value: Tensor,
}

impl Cx {
    /// Makes a context without a prefix for a graph that records statistics of the observed values that `selection`
    /// contains.
    pub fn recording(trace: TraceRef, training: bool, selection: &Selection) -> Cx {
        Cx::of_record(trace, training, selection, false)
    }

    /// Makes a context without a prefix for a graph that records the observed values themselves that `selection`
    /// contains, whole: places that [`Cx::observe_where`] leaves out are in them.
    pub fn observing(trace: TraceRef, training: bool, selection: &Selection) -> Cx {
        Cx::of_record(trace, training, selection, true)
    }

    fn of_record(trace: TraceRef, training: bool, selection: &Selection, takes_values: bool) -> Cx {
        let cx = Cx::new(trace, training);
        let record = Record {
            selection: selection.clone(),
            takes_values,
            names: Vec::new(),
            taken: BTreeSet::new(),
            recorded: Vec::new(),
        };
        cx.declared(|declared| declared.record = Some(record));
        cx
    }

    /// Names a value `PREFIX.name`, so that it or its statistics can be recorded. It adds nothing to a graph that does
    /// not record this value. Values of the same name get numbers from the second value on: `NAME.2`.
    #[track_caller]
    pub fn observe(self, name: &str, statistics: &[Statistic], x: Tensor) {
        self.observe_where(name, statistics, x, None);
    }

    /// [`Cx::observe`] for the elements of `x` where `seen` is true, a `bool` tensor that broadcasts to the shape
    /// of `x`; all of them without one.
    #[track_caller]
    pub fn observe_where(self, name: &str, statistics: &[Statistic], x: Tensor, seen: Option<Tensor>) {
        if !self.observes(name) || x.ty().numel() == 0 {
            return;
        }
        let inner = self.inner();
        let base = join(&inner.prefix, name);
        let takes_values = self.declared(|declared| declared.record.as_ref().is_some_and(|record| record.takes_values));
        let computed = if takes_values {
            Vec::new()
        } else {
            statistics_of(statistics, x, seen)
        };
        let mut declared = inner.declared.borrow_mut();
        let Some(record) = &mut declared.record else { return };
        let numbered = (2..).map(|number| format!("{base}.{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        let name = names.find(|name| !record.taken.contains(name)).unwrap_or(base);
        record.taken.insert(name.clone());
        record
            .recorded
            .extend(computed.into_iter().map(|(statistic, value)| Recorded {
                name: format!("{name}/{statistic}"),
                value,
            }));
        if takes_values {
            record.recorded.push(Recorded { name, value: x });
        }
    }

    /// Whether the value `PREFIX.name` or its statistics are recorded, for values that are computed only for that.
    pub fn observes(self, name: &str) -> bool {
        let inner = self.inner();
        let mut declared = inner.declared.borrow_mut();
        let Some(record) = &mut declared.record else {
            return false;
        };
        let name = join(&inner.prefix, name);
        let contained = record.selection.contains(&name);
        if !record.names.contains(&name) {
            record.names.push(name);
        }
        contained
    }

    /// Returns the statistics or values that were recorded.
    ///
    /// # Errors
    /// A part of the selection that is of no observed value.
    pub fn recorded(self) -> Result<Vec<Recorded>> {
        self.declared(|declared| match &declared.record {
            Some(record) => record.selection.check(&record.names).map(|()| record.recorded.clone()),
            None => Ok(Vec::new()),
        })
    }
}
