//! How a convolution with groups is laid on an array that knows no groups.

use lessen_base::{Error, Result};

use super::tiles::Pass;
use crate::layer::{LayerKind, LayerShape};

lessen_base::words! {
    /// The mapping of a convolution with groups, of which a depthwise one is the extreme. The published simulator has
    /// no groups, so that its users chose one, and results depend on it more than on anything else.
    #[derive(Hash, Default)]
    pub enum GroupMapping {
        /// One pass after another, each with the channels of one group: nearly all of the array is idle.
        #[default]
        PerGroup = "per-group",
        /// The groups side by side on the columns, each of which reads the channels of its own group; the taps of a
        /// window one after another.
        Columns = "columns",
        /// As [`GroupMapping::Columns`], with the taps of a window on the rows.
        Taps = "taps",
        /// As a convolution of one group's input channels to all output channels: the simulator with the number of
        /// input channels per group in place of all. The traffic of the other groups' inputs is missing.
        OneGroup = "one-group",
        /// As a convolution of all input channels to all output channels, whose other weights are zeros.
        Dense = "dense",
        /// Not counted.
        LeftOut = "left-out",
    }
}

impl GroupMapping {
    /// All of them.
    pub const ALL: [GroupMapping; 6] = [
        GroupMapping::PerGroup,
        GroupMapping::Columns,
        GroupMapping::Taps,
        GroupMapping::OneGroup,
        GroupMapping::Dense,
        GroupMapping::LeftOut,
    ];

    /// Those under which an accelerator computes a convolution as it is, with all its traffic.
    pub const WHOLE: [GroupMapping; 4] = [
        GroupMapping::PerGroup,
        GroupMapping::Columns,
        GroupMapping::Taps,
        GroupMapping::Dense,
    ];

    /// The word of `--depthwise`.
    pub fn name(self) -> &'static str {
        lessen_base::word::Word::word(self)
    }

    /// What it does, as a part of a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            GroupMapping::PerGroup => "one pass for each group",
            GroupMapping::Columns => "groups side by side on the array's columns, taps one after another",
            GroupMapping::Taps => "groups side by side on the array's columns, taps on its rows",
            GroupMapping::OneGroup => "one group's inputs to all outputs, without the traffic of the other inputs",
            GroupMapping::Dense => "all inputs to all outputs, as if there were no groups",
            GroupMapping::LeftOut => "not counted",
        }
    }

    /// The mapping of a word.
    ///
    /// # Errors
    /// A sentence with the words.
    pub fn parse(word: &str) -> Result<GroupMapping> {
        let found = GroupMapping::ALL.into_iter().find(|mapping| mapping.name() == word);
        found.ok_or_else(|| {
            Error::user(format!(
                "'{word}' is no mapping of groups; take one of {}",
                GroupMapping::ALL.map(GroupMapping::name).join(", ")
            ))
        })
    }

    /// The pass of a layer, and how often it is computed.
    pub(super) fn passes(self, shape: &LayerShape) -> (Pass, u64) {
        let (inputs, outputs, groups) = (shape.inputs, shape.outputs, shape.groups);
        let (of_inputs, of_outputs) = (inputs / groups, outputs / groups);
        let (inputs, outputs, times, group_outputs) = match self {
            _ if groups == 1 => (inputs, outputs, 1, None),
            GroupMapping::PerGroup => (of_inputs, of_outputs, groups, None),
            GroupMapping::Columns | GroupMapping::Taps => (of_inputs, outputs, 1, Some(of_outputs)),
            GroupMapping::OneGroup => (of_inputs, outputs, 1, None),
            GroupMapping::Dense => (inputs, outputs, 1, None),
            GroupMapping::LeftOut => (of_inputs, of_outputs, 0, None),
        };
        let is_laid_out = shape.is_first && shape.kind == LayerKind::Convolution;
        let pass = Pass {
            extents: [shape.batch, shape.output_size[0], shape.output_size[1], inputs, outputs],
            kernel: shape.kernel,
            stride: shape.stride,
            reach: [shape.reach(0), shape.reach(1)],
            windows_apart: is_laid_out,
            taps_on_rows: is_laid_out || (groups > 1 && self == GroupMapping::Taps),
            group_outputs,
        };
        (pass, times * shape.repeats)
    }
}
