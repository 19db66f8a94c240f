//! Where the elements of a resized axis come from.

use lessen_base::Result;

use crate::host::HostCall;

/// How an element of the result is mapped to a place in the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize,
    HalfPixelForNearest,
}

/// Which element is the nearest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
    /// The lower element where an axis grows, and the upper one where it shrinks: the rule before version 11.
    Simple,
}

/// How elements between others are computed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    Nearest(Nearest),
    Linear,
    /// The coefficient `a` of Keys' cubic convolution.
    Cubic(f64),
}

/// What a node says about all axes.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub mapping: Mapping,
    pub mode: Mode,
    pub excludes_outside: bool,
    pub antialias: bool,
}

impl Rules {
    /// The attributes of a `Resize` node.
    pub fn of(call: &HostCall<'_>) -> Result<Rules> {
        let is_first = call.opset < 11;
        let text = |name: &str, default: &str| call.text(name).unwrap_or_else(|| default.to_string());
        let mapping = match &*text("coordinate_transformation_mode", "half_pixel") {
            _ if is_first => Mapping::Asymmetric,
            "half_pixel" => Mapping::HalfPixel,
            "half_pixel_symmetric" => Mapping::HalfPixelSymmetric,
            "pytorch_half_pixel" => Mapping::PytorchHalfPixel,
            "align_corners" => Mapping::AlignCorners,
            "asymmetric" => Mapping::Asymmetric,
            "tf_crop_and_resize" => Mapping::CropAndResize,
            "tf_half_pixel_for_nn" => Mapping::HalfPixelForNearest,
            other => return call.refused(format!("its coordinate_transformation_mode `{other}` is not known")),
        };
        let nearest = match &*text("nearest_mode", "round_prefer_floor") {
            _ if is_first => Nearest::Simple,
            "round_prefer_floor" => Nearest::RoundPreferFloor,
            "round_prefer_ceil" => Nearest::RoundPreferCeil,
            "floor" => Nearest::Floor,
            "ceil" => Nearest::Ceil,
            other => return call.refused(format!("its nearest_mode `{other}` is not known")),
        };
        let mode = match &*text("mode", "nearest") {
            "nearest" => Mode::Nearest(nearest),
            "linear" | "bilinear" => Mode::Linear,
            "cubic" if !is_first => Mode::Cubic(call.float("cubic_coeff_a", -0.75)),
            other => return call.refused(format!("its mode `{other}` is not known")),
        };
        Ok(Rules {
            mapping,
            mode,
            excludes_outside: call.int("exclude_outside", 0) != 0,
            antialias: call.int("antialias", 0) != 0,
        })
    }
}

/// A resized axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub input: usize,
    pub output: usize,
    pub scale: f32,
    /// The extent of the result before it is cut to an integer.
    pub length: f32,
    /// The first and the last place that are cut out, as shares of the axis.
    pub roi: (f32, f32),
}

/// The elements of the input that an element of the result is a sum of, with factors.
pub type Taps = Vec<(usize, f64)>;

impl Axis {
    /// Whether the elements stay as they are.
    pub fn is_same(&self, rules: &Rules) -> bool {
        rules.mapping != Mapping::CropAndResize && self.scale == 1.0 && self.input == self.output
    }

    /// The place in the input, in single precision as files give scales.
    fn place(&self, mapping: Mapping, at: usize) -> f32 {
        let (input, x) = (self.input as f32, at as f32);
        let half_pixel = (x + 0.5) / self.scale - 0.5;
        match mapping {
            Mapping::HalfPixel => half_pixel,
            Mapping::PytorchHalfPixel if self.length > 1.0 => half_pixel,
            Mapping::PytorchHalfPixel => 0.0,
            Mapping::HalfPixelSymmetric => {
                let adjustment = self.output as f32 / self.length;
                let offset = input / 2.0 * (1.0 - adjustment);
                offset + half_pixel
            }
            Mapping::AlignCorners if self.length > 1.0 => x * (input - 1.0) / (self.length - 1.0),
            Mapping::AlignCorners => 0.0,
            Mapping::Asymmetric => x / self.scale,
            Mapping::CropAndResize if self.length > 1.0 => {
                let (start, end) = self.roi;
                start * (input - 1.0) + x * (end - start) * (input - 1.0) / (self.length - 1.0)
            }
            Mapping::CropAndResize => 0.5 * (self.roi.0 + self.roi.1) * (input - 1.0),
            Mapping::HalfPixelForNearest => (x + 0.5) / self.scale,
        }
    }

    /// Whether an element of the result comes from outside of the input.
    pub fn is_outside(&self, mapping: Mapping, at: usize) -> bool {
        mapping == Mapping::CropAndResize && !(0.0..=self.input as f32 - 1.0).contains(&self.place(mapping, at))
    }

    /// The nearest element of the input.
    pub fn nearest(&self, mapping: Mapping, nearest: Nearest, at: usize) -> usize {
        let place = self.place(mapping, at);
        let is_half = place - place.floor() == 0.5;
        let index = match nearest {
            Nearest::RoundPreferFloor if is_half => place.floor(),
            Nearest::RoundPreferCeil if is_half => place.ceil(),
            Nearest::RoundPreferFloor | Nearest::RoundPreferCeil => place.round(),
            Nearest::Floor => place.floor(),
            Nearest::Ceil => place.ceil(),
            Nearest::Simple if self.scale < 1.0 => place.ceil(),
            Nearest::Simple => place.trunc(),
        };
        self.clamped(index as i64)
    }

    fn clamped(&self, index: i64) -> usize {
        index.clamp(0, (self.input as i64 - 1).max(0)) as usize
    }

    /// The elements of the input around an element of the result, and their factors, whose sum is one.
    pub fn taps(&self, rules: &Rules, at: usize) -> Taps {
        let place = f64::from(self.place(rules.mapping, at));
        let scale = match rules.antialias {
            true => f64::from(self.scale.min(1.0)),
            false => 1.0,
        };
        let reach = match rules.mode {
            Mode::Cubic(_) => 2.0,
            _ => 1.0,
        };
        let low = place.floor();
        let first = low + (-reach / scale).floor() + 1.0;
        let count = 2.0 * (low - first) + 2.0;
        let most = self.input as i64 - 1;
        let mut taps: Taps = Vec::new();
        for i in 0..count as i64 {
            let index = (first as i64).saturating_add(i);
            if rules.excludes_outside && !(0..=most).contains(&index) {
                continue;
            }
            let distance = ((first + i as f64) - place).abs() * scale;
            let factor = match rules.mode {
                Mode::Cubic(a) => cubic(distance, a),
                _ => (1.0 - distance).max(0.0),
            };
            let index = self.clamped(index);
            match taps.last_mut() {
                Some((last, sum)) if *last == index => *sum += factor,
                _ => taps.push((index, factor)),
            }
        }
        let sum: f64 = taps.iter().map(|(_, factor)| factor).sum();
        taps.iter_mut().for_each(|(_, factor)| *factor /= sum);
        taps
    }
}

/// Keys' cubic convolution kernel at a distance.
pub fn cubic(distance: f64, a: f64) -> f64 {
    let x = distance;
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}
