//! Names that Lessen makes for values of a file's graphs in memory. They begin with a character with which no name of a
//! file begins, as [`Model`](crate::Model) refuses such files, so that neither can be the other. Names that are written
//! to files are new ones beside those of the file; see [`unused`](crate::edit::unused).

use std::fmt;

/// The first character of all names that Lessen makes.
const OWN: char = '\u{1}';

/// A name that Lessen makes. What is of a file's name ends with it, or has its length before it, so that different ones
/// never read the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnName<'a> {
    /// A constant that was computed while a program was traced.
    Constant(usize),
    /// The codes of a weight.
    Codes(usize),
    /// The images of a network.
    Images,
    /// A value that a node reads that is not traced.
    Read(&'a str),
    /// A weight or a bias that holds the norm with this output.
    Folded(&'static str, &'a str),
    /// The part of a weight that belongs to a direction of a recurrent network.
    Direction(usize, &'a str),
    /// A value in a branch of the node with this output.
    InBranch {
        output: &'a str,
        branch: &'a str,
        value: &'a str,
    },
}

impl fmt::Display for OwnName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OWN}")?;
        match self {
            OwnName::Constant(number) => write!(f, "constant {number}"),
            OwnName::Codes(number) => write!(f, "codes {number}"),
            OwnName::Images => write!(f, "images"),
            OwnName::Read(value) => write!(f, "read by an opaque node: {value}"),
            OwnName::Folded(part, output) => write!(f, "folded {part} of {output}"),
            OwnName::Direction(number, weight) => write!(f, "direction {number} of {weight}"),
            OwnName::InBranch { output, branch, value } => {
                write!(f, "{branch} of {} {output}/{value}", output.len())
            }
        }
    }
}

/// Whether a name is one that Lessen makes.
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with(OWN)
}
