//! How models know the order of tokens.

use std::fmt;

/// The field of `config.json` with its name.
pub(crate) const FIELD: &str = "lessen_position";

/// How a model knows the order of its tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Position {
    /// A learned vector for each position is added to the embeddings; sequences are at most as long as there are
    /// positions.
    #[default]
    Learned,
    /// The model does not know the order, except for what a causal attention tells.
    None,
    /// Queries and keys are rotated by their positions (RoPE, Su et al. 2021); see [`Rope`](lessen_graph::ops::Rope).
    Rope,
    /// Scores fall with the distance (ALiBi, Press et al. 2022); see
    /// [`alibi_slope`](lessen_graph::ops::attention::alibi_slope).
    Alibi,
    /// A learned function of the distance, relative to the position, is added to scores (FIRE, Li et al. 2024); see
    /// [`Fire`](lessen_graph::ops::attention::Fire).
    Fire,
}

lessen_base::words!(Position {
    Learned = "learned",
    None = "none",
    Rope = "rope",
    Alibi = "alibi",
    Fire = "fire",
});

impl Position {
    /// All variants.
    pub const ALL: [Position; 5] = [
        Position::Learned,
        Position::None,
        Position::Rope,
        Position::Alibi,
        Position::Fire,
    ];

    /// The name in recipes and checkpoints.
    pub fn name(self) -> &'static str {
        match self {
            Position::Learned => "learned",
            Position::None => "none",
            Position::Rope => "rope",
            Position::Alibi => "alibi",
            Position::Fire => "fire",
        }
    }

    /// The variant of this name.
    pub fn from_name(name: &str) -> Option<Position> {
        Position::ALL.into_iter().find(|position| position.name() == name)
    }

    /// Whether sequences are at most as long as a table of positions.
    pub fn is_limited(self) -> bool {
        self == Position::Learned
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
