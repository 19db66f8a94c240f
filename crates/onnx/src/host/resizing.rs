//! The resizing of an array along its axes, as a node describes it.

use lessen_base::Result;

use super::call::HostCall;
use super::coordinates::{Axis, Mapping, Mode, Nearest, Rules, Taps};

/// The extent of an axis times a scale, in single precision as files give scales.
fn scaled(call: &HostCall<'_>, extent: usize, scale: f32) -> Result<usize> {
    let size = (extent as f32 * scale).floor();
    if scale > 0.0 && size <= (1 << 30) as f32 {
        Ok(size as usize)
    } else {
        call.refused(format!("an axis of {extent} elements cannot be scaled by {scale}"))
    }
}

/// Where the elements of a resized array come from.
pub struct Resizing {
    /// The axes of the array.
    pub axes: Vec<Axis>,
    /// The rules for all axes.
    pub rules: Rules,
}

impl Resizing {
    /// What a node says about an array of this shape.
    ///
    /// # Errors
    /// Attributes and inputs that do not go together.
    pub fn of(call: &HostCall<'_>, shape: &[usize]) -> Result<Resizing> {
        if call.node.op_type == "Upsample" {
            Resizing::upsample(call, shape)
        } else {
            Resizing::resize(call, shape)
        }
    }

    /// For each axis that changes, in the order in which they are resized, the elements that each element of the result
    /// is a sum of, with factors; none where elements from outside have a value of their own.
    pub fn taps(&self) -> Option<Vec<(usize, Vec<Taps>)>> {
        if self.rules.mapping == Mapping::CropAndResize {
            return None;
        }
        let order = self.order().into_iter();
        let taps = order.map(|axis| {
            let own = self.axes[axis];
            let at = |i: usize| match self.rules.mode {
                Mode::Nearest(nearest) => vec![(own.nearest(self.rules.mapping, nearest, i), 1.0)],
                _ => own.taps(&self.rules, i),
            };
            (axis, (0..own.output).map(at).collect())
        });
        Some(taps.collect())
    }

    /// The axes that are resized: those that shrink most come first.
    pub fn order(&self) -> Vec<usize> {
        let Resizing { axes, rules } = self;
        let mut order: Vec<usize> = (0..axes.len()).filter(|axis| !axes[*axis].is_same(rules)).collect();
        let growth = |axis: &usize| axes[*axis].output as f64 / axes[*axis].input.max(1) as f64;
        order.sort_by(|a, b| growth(a).total_cmp(&growth(b)));
        order
    }

    /// `Upsample(X, scales)`: versions 7 and 9; version 1 has scales of height and width.
    fn upsample(call: &HostCall<'_>, shape: &[usize]) -> Result<Resizing> {
        let scales: Vec<f32> = if call.has(1) {
            call.tensor(1)?
                .data()
                .to_f64()
                .iter()
                .map(|scale| *scale as f32)
                .collect()
        } else if let Some(scales) = call.floats("scales") {
            scales
        } else {
            let both = ["height_scale", "width_scale"].map(|name| call.float(name, 0.0) as f32);
            [1.0, 1.0].into_iter().chain(both).collect()
        };
        if scales.len() != shape.len() {
            return call.refused(format!("it has {} scales for {} axes", scales.len(), shape.len()));
        }
        let mode = match call.text("mode").as_deref() {
            None | Some("nearest") => Mode::Nearest(Nearest::Simple),
            Some("linear" | "bilinear") => Mode::Linear,
            Some(other) => return call.refused(format!("its mode `{other}` is not known")),
        };
        let rules = Rules {
            mapping: Mapping::Asymmetric,
            mode,
            excludes_outside: false,
            antialias: false,
        };
        let axes = shape.iter().zip(scales).map(|(extent, scale)| {
            Ok(Axis {
                input: *extent,
                output: scaled(call, *extent, scale)?,
                scale,
                length: *extent as f32 * scale,
                roi: (0.0, 1.0),
            })
        });
        Ok(Resizing {
            axes: axes.collect::<Result<Vec<Axis>>>()?,
            rules,
        })
    }

    /// `Resize(X, roi, scales, sizes)`; version 10 is `Resize(X, scales)`.
    fn resize(call: &HostCall<'_>, shape: &[usize]) -> Result<Resizing> {
        let rules = Rules::of(call)?;
        let all: Vec<i64> = (0..shape.len() as i64).collect();
        let chosen = call.ints("axes").filter(|axes| !axes.is_empty()).unwrap_or(all);
        let chosen = chosen.iter().map(|axis| call.axis(*axis, shape.len()));
        let chosen = chosen.collect::<Result<Vec<usize>>>()?;
        let numbers = |input: usize| -> Result<Vec<f64>> {
            let given = call.optional(input)?;
            Ok(given.map_or_else(Vec::new, |given| given.data().to_f64()))
        };
        let scales = numbers(if call.opset < 11 { 1 } else { 2 })?;
        let sizes = if call.opset < 11 { Vec::new() } else { numbers(3)? };
        let mut axes: Vec<Axis> = shape
            .iter()
            .map(|extent| Axis {
                input: *extent,
                output: *extent,
                scale: 1.0,
                length: *extent as f32,
                roi: (0.0, 1.0),
            })
            .collect();
        match (scales.len(), sizes.len()) {
            (count, 0) if count == chosen.len() => {
                for (axis, scale) in chosen.iter().zip(scales) {
                    let axis = &mut axes[*axis];
                    axis.scale = scale as f32;
                    axis.length = axis.input as f32 * axis.scale;
                    axis.output = scaled(call, axis.input, axis.scale)?;
                }
            }
            (0, count) if count == chosen.len() => sized(call, &mut axes, &chosen, &sizes)?,
            (a, b) => {
                let axes = chosen.len();
                return call.refused(format!("it has {a} scales and {b} sizes for {axes} axes"));
            }
        }
        if rules.mapping == Mapping::CropAndResize {
            let roi = numbers(1)?;
            if roi.len() != 2 * chosen.len() {
                return call.refused(format!("its roi has {} numbers for {} axes", roi.len(), chosen.len()));
            }
            let (starts, ends) = roi.split_at(chosen.len());
            for (axis, (start, end)) in chosen.iter().zip(starts.iter().zip(ends)) {
                axes[*axis].roi = (*start as f32, *end as f32);
            }
        }
        Ok(Resizing { axes, rules })
    }
}

/// Sets the output of axes by the sizes that are wanted.
fn sized(call: &HostCall<'_>, axes: &mut [Axis], chosen: &[usize], sizes: &[f64]) -> Result<()> {
    if let Some(bad) = sizes.iter().find(|size| !(0.0..=(1 << 30) as f64).contains(*size)) {
        return call.refused(format!("an axis cannot have {bad} elements"));
    }
    let ratio = |(axis, size): (&usize, &f64)| size / axes[*axis].input as f64;
    let ratios = chosen.iter().zip(sizes).map(ratio);
    let common = match call.text("keep_aspect_ratio_policy").as_deref() {
        None | Some("stretch") => None,
        Some("not_larger") => Some(ratios.fold(f64::INFINITY, f64::min)),
        Some("not_smaller") => Some(ratios.fold(0.0, f64::max)),
        Some(other) => return call.refused(format!("its keep_aspect_ratio_policy `{other}` is not known")),
    };
    for (axis, size) in chosen.iter().zip(sizes) {
        let axis = &mut axes[*axis];
        if axis.input == 0 && *size > 0.0 {
            return call.refused("an axis without elements cannot be resized");
        }
        let (size, length) = match common {
            Some(scale) => ((scale * axis.input as f64 + 0.5).floor(), scale * axis.input as f64),
            None => (*size, *size),
        };
        axis.length = length as f32;
        axis.scale = match common {
            Some(scale) => scale as f32,
            None if axis.input == 0 => 1.0,
            None => size as f32 / axis.input as f32,
        };
        axis.output = size.clamp(0.0, (1 << 30) as f64) as usize;
    }
    Ok(())
}
