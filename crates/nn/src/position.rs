//! How models know the order of tokens.

/// The field of `config.json` with its name.
pub(crate) const FIELD: &str = "lessen_position";

lessen_base::words! {
    /// How a model knows the order of its tokens.
    #[derive(Default)]
    pub enum Position {
        /// A learned vector for each position is added to the embeddings; sequences are at most as long as there are
        /// positions.
        #[default]
        Learned = "learned",
        /// The model does not know the order, except for what a causal attention tells.
        None = "none",
        /// Queries and keys are rotated by their positions (RoPE, Su et al. 2021); see
        /// [`Rope`](lessen_graph::ops::Rope).
        Rope = "rope",
        /// Scores fall with the distance (ALiBi, Press et al. 2022); see
        /// [`alibi_slope`](lessen_graph::ops::attention::alibi_slope).
        Alibi = "alibi",
        /// A learned function of the distance, relative to the position, is added to scores (FIRE, Li et al. 2024); see
        /// [`Fire`](lessen_graph::ops::attention::Fire).
        Fire = "fire",
    }
}

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
        lessen_base::word::Word::word(self)
    }

    /// The variant of this name.
    pub fn from_name(name: &str) -> Option<Position> {
        lessen_base::word::Word::from_word(name)
    }

    /// Whether sequences are at most as long as a table of positions.
    pub fn is_limited(self) -> bool {
        self == Position::Learned
    }
}
