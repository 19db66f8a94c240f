//! Rotary position embeddings as `config.json` describes them.

use lessen_graph::ops::attention::RopeScaling;
use lessen_graph::{Tensor, concat};
use serde_json::{Map, Value, json};

use crate::config::Fields;
use crate::position::FIELD;
use lessen_base::Result;

/// The base of the wavelengths, where nothing else is said.
const BASE: f64 = 10000.0;

const SCALING: &str = "rope_scaling";
/// Field of transformers from version 5 on, with base and share in it.
const PARAMETERS: &str = "rope_parameters";
const THETA: &str = "rope_theta";
const SHARE: &str = "partial_rotary_factor";

/// Rotary position embeddings: the angles, and the elements of a head that they rotate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rotary {
    /// The base of the wavelengths.
    pub base: f64,
    /// How the angles are changed for longer texts.
    pub scaling: RopeScaling,
    /// How many elements of a head are rotated, the first ones; `None` means all.
    pub width: Option<usize>,
    /// Whether element `2i` is rotated with `2i + 1` (GPT-J), not `i` with `i + width / 2` (GPT-NeoX, Llama).
    pub interleaved: bool,
}

/// The fields of a family of models for the base and the share of rotated elements, where `rope_parameters` has none.
pub(crate) struct RotaryFields {
    base: &'static str,
    /// The field of the share, and its default; none where all elements are rotated.
    share: Option<(&'static str, f64)>,
}

impl RotaryFields {
    pub(crate) const LLAMA: RotaryFields = RotaryFields {
        base: THETA,
        share: None,
    };

    pub(crate) const GPT_NEOX: RotaryFields = RotaryFields {
        base: "rotary_emb_base",
        share: Some(("rotary_pct", 0.25)),
    };
}

impl Rotary {
    /// A base of 10000 and no scaling; all elements are rotated, in halves.
    pub const DEFAULT: Rotary = Rotary {
        base: BASE,
        scaling: RopeScaling::None,
        width: None,
        interleaved: false,
    };

    /// [`Rotary::DEFAULT`] of the first quarter of heads of this width, rounded down to pairs, and of one at least.
    pub(crate) fn of_quarter(head_width: usize) -> Rotary {
        let width = (head_width / 8 * 2).max(2);
        Rotary {
            width: (width < head_width).then_some(width),
            ..Rotary::DEFAULT
        }
    }

    /// How many elements of a head of this width are rotated.
    pub(crate) fn width_in(self, head_width: usize) -> usize {
        self.width.unwrap_or(head_width)
    }

    /// Rotates heads, `[B, T, H, D]`, by the positions of their tokens, `i32[T]`. Interleaved elements become halves,
    /// `0, 2, .., 1, 3, ..`, of queries and keys alike: their products do not depend on the order of elements.
    pub(crate) fn rotate(self, x: Tensor, positions: Tensor) -> Tensor {
        let (all, width) = (x.dim(3), self.width_in(x.dim(3)));
        if width < all {
            let rotated = self.rotate_all(x.slice(3, 0, width), positions);
            return concat(&[rotated, x.slice(3, width, all - width)], 3);
        }
        self.rotate_all(x, positions)
    }

    fn rotate_all(self, x: Tensor, positions: Tensor) -> Tensor {
        let shape = x.shape();
        let halves = if self.interleaved {
            let pairs = [&shape[..3], &[shape[3] / 2, 2]].concat();
            x.reshape(&pairs).transpose(3, 4).reshape(&shape)
        } else {
            x
        };
        halves.rope(positions, self.base, self.scaling)
    }

    /// Reads `rope_parameters`, or else the fields of a family and `rope_scaling`, for heads of this width.
    pub(crate) fn from_fields(fields: &Fields, family: &RotaryFields, head_width: usize) -> Result<Rotary> {
        let place = if fields.get(PARAMETERS).is_some() {
            PARAMETERS
        } else {
            SCALING
        };
        let mut base = fields.positive_or(family.base, BASE)?;
        let mut share = match family.share {
            Some((field, default)) => fields.positive_or(field, default)?,
            None => 1.0,
        };
        let (mut scaling, mut is_inner) = (RopeScaling::None, false);
        if let Some(inner) = fields.within(place)? {
            if family.share.is_none() {
                inner.must_be(SHARE, &json!(share))?;
            }
            base = inner.positive_or(THETA, base)?;
            is_inner = inner.get(SHARE).is_some();
            share = inner.positive_or(SHARE, share)?;
            scaling = read_scaling(fields, place, &inner)?;
        }
        // Rounded down, as in transformers.
        let width = (share * head_width as f64) as usize;
        let rotary = Rotary {
            base,
            scaling,
            ..Rotary::DEFAULT
        };
        match family.share {
            Some((field, _)) => {
                let field = if is_inner { place } else { field };
                rotary.with_width(fields, field, width, head_width)
            }
            None => Ok(rotary),
        }
    }

    /// Returns the settings with this width, which follows from `field`, in heads of `head_width` elements.
    pub(crate) fn with_width(self, fields: &Fields, field: &str, width: usize, head_width: usize) -> Result<Rotary> {
        let width = (width != head_width).then_some(width);
        let rotary = Rotary { width, ..self };
        if rotary.fits(head_width) || fields.get(FIELD).is_some() {
            return Ok(rotary);
        }
        let rotated = rotary.width_in(head_width);
        Err(fields.error(
            field,
            format!(
                "is {rotated} of the {head_width} elements of a head, and Lessen rotates pairs; give an even number \
                 from 2 to {head_width}"
            ),
        ))
    }

    /// Whether it rotates whole pairs of the elements of such heads.
    pub(crate) fn fits(self, head_width: usize) -> bool {
        let width = self.width_in(head_width);
        width.is_multiple_of(2) && (2..=head_width).contains(&width)
    }

    /// The share of the elements of a head that are rotated, from which transformers has the same width.
    fn share(self, head_width: usize) -> f64 {
        let (width, all) = (self.width_in(head_width), head_width as f64);
        let share = width as f64 / all;
        if (share * all) as usize == width {
            share
        } else {
            (width as f64 + 0.5) / all
        }
    }

    /// Writes the fields that [`Rotary::from_fields`] reads: the fields of transformers 5 if `map` has them, otherwise
    /// the older fields.
    pub(crate) fn put(self, family: &RotaryFields, head_width: usize, map: &mut Map<String, Value>) {
        let mut scaling = match self.scaling {
            RopeScaling::None => Map::new(),
            RopeScaling::Linear { factor } => object(json!({ "rope_type": "linear", "factor": factor })),
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                length,
            } => object(json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": length as u64,
            })),
        };
        if map.get(PARAMETERS).is_some_and(Value::is_object) {
            scaling.entry("rope_type").or_insert(json!("default"));
            scaling.insert(THETA.into(), json!(self.base));
            if family.share.is_some() {
                scaling.insert(SHARE.into(), json!(self.share(head_width)));
            }
            map.insert(PARAMETERS.into(), scaling.into());
            return;
        }
        map.insert(family.base.into(), json!(self.base));
        if let Some((field, _)) = family.share {
            map.insert(field.into(), json!(self.share(head_width)));
        }
        let scaling = if scaling.is_empty() {
            Value::Null
        } else {
            scaling.into()
        };
        map.insert(SCALING.into(), scaling);
    }
}

/// The scaling in `inner`, the object in the field `place`.
fn read_scaling(fields: &Fields, place: &str, inner: &Fields) -> Result<RopeScaling> {
    let kind = match inner.word("rope_type")? {
        None => inner.word("type")?,
        kind => kind,
    };
    let scaling = match kind.unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear {
            factor: inner.positive("factor")?,
        },
        "llama3" => RopeScaling::Llama3 {
            factor: inner.positive("factor")?,
            low: inner.positive("low_freq_factor")?,
            high: inner.positive("high_freq_factor")?,
            length: inner.positive("original_max_position_embeddings")?,
        },
        other => {
            let what = format!("has the type `{other}`, and Lessen has default, linear and llama3");
            return Err(fields.error(place, what));
        }
    };
    scaling
        .check()
        .map_err(|error| fields.error(place, format!("is wrong: {error}")))?;
    Ok(scaling)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
