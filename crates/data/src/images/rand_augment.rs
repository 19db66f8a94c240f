//! RandAugment (Cubuk, Zoph, Shlens and Le, "RandAugment: practical automated data augmentation with a reduced search
//! space", 2020): some of 14 changes, one after another, all of one strength.

use lessen_base::SplitMix64;

use super::affine::Affine;
use super::image::Image;

/// The greatest strength.
pub(super) const STRONGEST: u32 = 30;

/// The changes. At the greatest strength, in either direction where there are two: shears of 0.3, shifts of 150 pixels
/// of 331, 30 degrees, factors of 0.1 and 1.9, 4 bits, all bytes turned around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    ShearX,
    ShearY,
    ShiftX,
    ShiftY,
    Rotate,
    Brightness,
    Saturation,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
}

const CHANGES: [Change; 14] = [
    Change::Nothing,
    Change::ShearX,
    Change::ShearY,
    Change::ShiftX,
    Change::ShiftY,
    Change::Rotate,
    Change::Brightness,
    Change::Saturation,
    Change::Contrast,
    Change::Sharpness,
    Change::Posterize,
    Change::Solarize,
    Change::AutoContrast,
    Change::Equalize,
];

/// Applies `count` changes of a strength from 0 to [`STRONGEST`].
pub(super) fn rand_augment(mut image: Image, count: u32, strength: u32, random: &mut SplitMix64) -> Image {
    for _ in 0..count {
        let change = CHANGES[random.below(CHANGES.len() as u64) as usize];
        let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
        image = changed(image, change, strength, sign);
    }
    image
}

fn changed(mut image: Image, change: Change, strength: u32, sign: f64) -> Image {
    let share = f64::from(strength) / f64::from(STRONGEST);
    let shift = |size: usize| (150.0 / 331.0 * share * size as f64).round() * sign;
    let factor = (1.0 + sign * 0.9 * share) as f32;
    match change {
        Change::Nothing => {}
        Change::ShearX => return image.mapped(Affine::shear_x(0.3 * share * sign)),
        Change::ShearY => return image.mapped(Affine::shear_y(0.3 * share * sign)),
        Change::ShiftX => return image.mapped(Affine::shift(shift(image.width()), 0.0)),
        Change::ShiftY => return image.mapped(Affine::shift(0.0, shift(image.height()))),
        Change::Rotate => return image.mapped(Affine::rotation(30.0 * share * sign)),
        Change::Sharpness => return image.sharpened(factor),
        Change::Brightness => image.bright(factor),
        Change::Saturation => image.saturated(factor),
        Change::Contrast => image.contrasted(factor),
        Change::Posterize => image.posterized(8 - (4.0 * share).round() as u32),
        Change::Solarize => image.solarized((256.0 * (1.0 - share)).round() as u16),
        Change::AutoContrast => image.auto_contrasted(),
        Change::Equalize => image.equalized(),
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::decode::tests::sloping;

    #[test]
    fn without_strength_only_contrast_and_equalizing_change_anything() {
        let image = sloping([9, 8, 3]);
        for change in CHANGES {
            let is_same = changed(image.clone(), change, 0, -1.0) == image;
            let has_no_strength = [Change::AutoContrast, Change::Equalize].contains(&change);
            // Equalizing needs more than 255 pixels for a step.
            assert_eq!(is_same, !has_no_strength || change == Change::Equalize, "{change:?}");
        }
    }

    #[test]
    fn the_greatest_strength_is_that_of_the_paper() {
        let image = sloping([9, 8, 3]);
        let at = |change, sign| changed(image.clone(), change, STRONGEST, sign);
        assert_eq!(at(Change::Rotate, -1.0), image.mapped(Affine::rotation(-30.0)));
        // 150 / 331 * 8 = 3.6.
        assert_eq!(at(Change::ShiftX, 1.0), image.mapped(Affine::shift(4.0, 0.0)));
        let turned: Vec<u8> = image.bytes().iter().map(|byte| 255 - byte).collect();
        assert_eq!(at(Change::Solarize, 1.0).bytes(), turned);
        let coarse: Vec<u8> = image.bytes().iter().map(|byte| byte & 0xF0).collect();
        assert_eq!(at(Change::Posterize, 1.0).bytes(), coarse);
        let mut dark = image.clone();
        dark.bright(0.1);
        assert_eq!(at(Change::Brightness, -1.0), dark);
    }

    #[test]
    fn every_change_comes() {
        // Not a slope, which sharpening leaves as it is.
        let bytes = (0..20 * 16 * 3).map(|at| (at * at % 251) as u8);
        let image = Image::new([20, 16, 3], bytes.collect());
        let seeds = 0..200;
        let results: std::collections::HashSet<Vec<u8>> = seeds
            .map(|seed| {
                rand_augment(image.clone(), 1, 9, &mut SplitMix64::new(seed))
                    .bytes()
                    .to_vec()
            })
            .collect();
        // All 14; 9 of them have two directions.
        assert_eq!(results.len(), 14 + 9);
    }
}
