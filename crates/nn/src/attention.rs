//! The attention that all layers of a model have: how scores become weights, and how positions are known.

use lessen_graph::Tensor;
use lessen_graph::ops::attention::{PositionBias, Weighting};
use serde_json::{Map, Value};

use crate::batch::BatchShape;
use crate::config::{Fields, put_own};
use crate::context::Cx;
use crate::fire::FireConfig;
use crate::init::Init;
use crate::layers::{Attend, RelativeBias};
use crate::position::{FIELD as OWN_POSITION, Position};
use crate::rotary::Rotary;
use lessen_base::{Error, Result};

const OWN_WEIGHTING: &str = "lessen_attention";

/// The attention of every layer of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttentionConfig {
    /// How scores become weights. A learned weight is the parameter `head_weight` of every layer, initially 1.
    pub weighting: Weighting,
    /// How positions are known.
    pub position: Position,
    /// The function of FIRE, where positions are known by it.
    pub fire: FireConfig,
    /// The angles of rotary positions.
    pub rotary: Rotary,
}

impl AttentionConfig {
    /// Softmax and learned positions; for FIRE [`FireConfig::DEFAULT`].
    pub const DEFAULT: AttentionConfig = AttentionConfig {
        weighting: Weighting::Softmax,
        position: Position::Learned,
        fire: FireConfig::DEFAULT,
        rotary: Rotary::DEFAULT,
    };
}

impl Default for AttentionConfig {
    /// [`AttentionConfig::DEFAULT`]
    fn default() -> AttentionConfig {
        AttentionConfig::DEFAULT
    }
}

impl AttentionConfig {
    /// Checks that heads of this width can have it.
    ///
    /// # Errors
    /// Rotary position embeddings of an odd number of elements, of none, or of more than a head has.
    pub fn check(&self, head_width: usize) -> Result<()> {
        if self.position != Position::Rope || self.rotary.fits(head_width) {
            return Ok(());
        }
        let which = self
            .rotary
            .width
            .map_or(String::new(), |width| format!(", {width} to rotate"));
        Err(Error::user(format!(
            "rope rotates pairs of elements, but heads have {head_width}{which}; choose another number of heads or \
             position"
        )))
    }

    /// Reads the fields that [`AttentionConfig::put`] writes, for heads of this width; `self` has the values of a model
    /// without such fields.
    pub(crate) fn with_fields(self, fields: &Fields, head_width: usize) -> Result<AttentionConfig> {
        let mut config = self;
        if let Some(word) = fields.word(OWN_WEIGHTING)? {
            let refuse = |_| {
                let words = Weighting::words();
                fields.error(
                    OWN_WEIGHTING,
                    format!("is `{word}`, which Lessen does not have; it has {words}"),
                )
            };
            config.weighting = word.parse().map_err(refuse)?;
        }
        if let Some(word) = fields.word(OWN_POSITION)? {
            config.position = Position::from_name(word).ok_or_else(|| {
                let known = Position::ALL.map(Position::name).join(", ");
                fields.error(
                    OWN_POSITION,
                    format!("is `{word}`, which Lessen does not have; it has {known}"),
                )
            })?;
        }
        config.fire = config.fire.with_fields(fields)?;
        let refuse = |_| {
            fields.error(
                OWN_POSITION,
                format!("is `rope`, for which heads of {head_width} are odd"),
            )
        };
        config.check(head_width).map_err(refuse)?;
        Ok(config)
    }

    /// Writes settings that differ from the default of the model, in fields that transformers ignores.
    pub(crate) fn put(&self, default: &AttentionConfig, map: &mut Map<String, Value>) {
        for (field, differs, value) in [
            (
                OWN_WEIGHTING,
                self.weighting != default.weighting,
                Value::from(self.weighting.to_string()),
            ),
            (
                OWN_POSITION,
                self.position != default.position,
                Value::from(self.position.name()),
            ),
        ] {
            put_own(map, field, differs.then_some(value));
        }
        self.fire.put(self.position == Position::Fire, map);
    }
}

/// Settings and parameters that the attentions of one forward pass share.
#[derive(Clone, Copy)]
pub(crate) struct SharedAttention {
    config: AttentionConfig,
    heads: usize,
    /// The bias of FIRE, where all layers share its parameters.
    fire: Option<PositionBias>,
    /// Positions by which queries and keys are rotated: `i32[T]` if all sequences have the same positions, otherwise
    /// one for each token of all sequences. None where nothing is rotated.
    rotary: Option<Tensor>,
    /// The bias of scores by distance, whose parameter all layers share.
    relative: Option<RelativeBias>,
    /// The starts of sequences without padding.
    starts: Option<Tensor>,
    /// The positions of the first queries among the keys.
    offset: Option<Tensor>,
}

impl SharedAttention {
    /// Declares the parameters and inputs that all layers share, for queries and keys of the same tokens.
    pub(crate) fn new(cx: Cx, config: AttentionConfig, heads: usize, batch: BatchShape) -> SharedAttention {
        let fire = config.position == Position::Fire && config.fire.shared;
        SharedAttention {
            config,
            heads,
            fire: fire.then(|| config.fire.parameters(cx, heads)),
            rotary: (config.position == Position::Rope).then(|| batch.positions(cx)),
            relative: None,
            starts: batch.starts(cx),
            offset: None,
        }
    }

    /// Returns the settings with this bias of scores by distance.
    pub(crate) fn with_relative(self, relative: Option<RelativeBias>) -> SharedAttention {
        SharedAttention { relative, ..self }
    }

    /// Returns the settings for one query of each sequence, at these positions (`i32[B]`) among the keys.
    pub(crate) fn from(self, offset: Tensor) -> SharedAttention {
        SharedAttention {
            rotary: self.rotary.map(|positions| positions + offset),
            offset: Some(offset),
            ..self
        }
    }

    /// Returns the options `how` with weighting and positions for one layer. Parameters of the layer's own are declared
    /// at `cx`.
    pub(crate) fn of_layer(&self, cx: Cx, how: Attend) -> Attend {
        let bias = match self.config.position {
            Position::Alibi => PositionBias::Alibi,
            Position::Fire => {
                let own = || self.config.fire.parameters(cx, self.heads);
                self.fire.unwrap_or_else(own)
            }
            Position::Learned | Position::None | Position::Rope => PositionBias::None,
        };
        let weighting = self.config.weighting;
        let weight = weighting.is_learned();
        Attend {
            heads: self.heads,
            weighting,
            weight: weight.then(|| cx.param("head_weight", &[self.heads], Init::Ones)),
            bias,
            rotary: self.rotary.map(|positions| (positions, self.config.rotary)),
            relative: self.relative,
            starts: self.starts,
            offset: self.offset,
            ..how
        }
    }
}
