//! The changes of a model while they are decided, and the names of values in other forms.

use std::collections::{BTreeMap, BTreeSet};

use lessen_graph::ValueId;
use lessen_rewrite::Lines;

use lessen_onnx::Model;
use lessen_onnx::edit::Edits;

/// The changes of a model. A value that lacks its last element has a name of its own, so that whatever else reads the
/// value finds all elements under the name that it had.
pub(super) struct Draft<'a> {
    pub edits: Edits<'a>,
    /// Names of values without their last element.
    pub short: BTreeMap<ValueId, String>,
    /// Names of values that the model computes inside a node.
    pub inner: BTreeMap<ValueId, String>,
    /// Names of values without their mean.
    pub centred: BTreeMap<Lines, String>,
    /// Names of complete values that one use reads without their last element.
    pub sliced: BTreeMap<Lines, String>,
    /// Names that the model's values have, each with the one of the value without its last element.
    pub shortened: Vec<(String, String)>,
    /// The nodes of the model that read values without their last element.
    pub readers: BTreeSet<usize>,
}

impl Draft<'_> {
    /// No changes of a model.
    pub fn of(model: &Model) -> Draft<'static> {
        Draft {
            edits: Edits::of(model),
            short: BTreeMap::new(),
            inner: BTreeMap::new(),
            centred: BTreeMap::new(),
            sliced: BTreeMap::new(),
            shortened: Vec::new(),
            readers: BTreeSet::new(),
        }
    }
}
