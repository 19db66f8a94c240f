//! Brightness, contrast, colour and sharpness of images, and functions of single bytes.
//!
//! A factor leads from something without the property (black, grey, blurred) at 0 over the image at 1 to more of it;
//! results are rounded and stay within a byte.

use super::image::{Image, luma};

/// The nearest byte to `from + factor * (to - from)`.
fn blended(from: f32, to: u8, factor: f32) -> u8 {
    (from + factor * (f32::from(to) - from) + 0.5).clamp(0.0, 255.0) as u8
}

impl Image {
    /// Blends black with the image.
    pub(super) fn bright(&mut self, factor: f32) {
        self.look_up(|byte| blended(0.0, byte, factor));
    }

    /// Blends an even grey, the mean brightness, with the image.
    pub(super) fn contrasted(&mut self, factor: f32) {
        let channels = self.channels();
        let sum: u64 = self
            .bytes()
            .chunks_exact(channels)
            .map(|pixel| u64::from(luma(pixel)))
            .sum();
        let pixels = (self.bytes().len() / channels).max(1) as u64;
        let mean = ((2 * sum + pixels) / (2 * pixels)) as f32;
        self.look_up(|byte| blended(mean, byte, factor));
    }

    /// Blends the image in grey with the image; a grey image stays as it is.
    pub(super) fn saturated(&mut self, factor: f32) {
        if self.channels() == 3 {
            for pixel in self.bytes_mut().chunks_exact_mut(3) {
                let grey = f32::from(luma(pixel));
                pixel.iter_mut().for_each(|byte| *byte = blended(grey, *byte, factor));
            }
        }
    }

    /// Turns the circle of hues by a share of it, from -0.5 to 0.5; a grey image stays as it is.
    pub(super) fn hue_turned(&mut self, turn: f32) {
        if self.channels() == 3 && turn != 0.0 {
            for pixel in self.bytes_mut().chunks_exact_mut(3) {
                let turned = turned([pixel[0], pixel[1], pixel[2]], turn);
                pixel.copy_from_slice(&turned);
            }
        }
    }

    /// Blends the blurred image with the image. Blurred, a pixel is 5 parts of 13 itself and a part each of its 8
    /// neighbours; pixels of the border stay.
    pub(super) fn sharpened(&self, factor: f32) -> Image {
        let (height, width, channels) = (self.height(), self.width(), self.channels());
        let mut sharpened = self.clone();
        let stride = width * channels;
        for row in 1..height.saturating_sub(1) {
            for at in row * stride + channels..((row + 1) * stride).saturating_sub(channels) {
                let around = [at - stride, at, at + stride];
                let sum = around.iter().flat_map(|at| [at - channels, *at, at + channels]);
                let sum: u32 = sum.map(|at| u32::from(self.bytes()[at])).sum();
                let own = self.bytes()[at];
                let blurred = ((sum + 4 * u32::from(own)) as f32 / 13.0 + 0.5).floor();
                sharpened.bytes_mut()[at] = blended(blurred, own, factor);
            }
        }
        sharpened
    }

    /// Keeps so many of the highest bits of every byte, from 0 to 8.
    pub(super) fn posterized(&mut self, bits: u32) {
        let kept = !(0xFFu32 >> bits) as u8;
        self.look_up(|byte| byte & kept);
    }

    /// Turns bytes from `threshold` on around: 255 becomes 0.
    pub(super) fn solarized(&mut self, threshold: u16) {
        self.look_up(|byte| if u16::from(byte) < threshold { byte } else { 255 - byte });
    }

    /// Stretches each channel so that its least byte is 0 and its greatest one 255; an even channel stays.
    pub(super) fn auto_contrasted(&mut self) {
        self.by_channel(|counts| {
            let least = counts.iter().position(|count| *count > 0).unwrap_or(0);
            let greatest = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
            let range = greatest.saturating_sub(least);
            std::array::from_fn(|byte| match range {
                0 => byte as u8,
                _ => ((510 * byte.clamp(least, greatest) - 510 * least + range) / (2 * range)) as u8,
            })
        });
    }

    /// Makes all bytes of a channel about as frequent: a byte becomes the share of pixels below it, in steps of a
    /// 255th of all pixels but the brightest.
    pub(super) fn equalized(&mut self) {
        self.by_channel(|counts| {
            let all: usize = counts.iter().sum();
            let brightest = counts.iter().rev().find(|count| **count > 0).copied().unwrap_or(0);
            let step = (all - brightest) / 255;
            let mut below = step / 2;
            std::array::from_fn(|byte| {
                let level = below.checked_div(step).unwrap_or(byte);
                below += counts[byte];
                level.min(255) as u8
            })
        });
    }

    /// Replaces every byte by a function of it.
    fn look_up(&mut self, function: impl Fn(u8) -> u8) {
        let table: [u8; 256] = std::array::from_fn(|byte| function(byte as u8));
        self.bytes_mut()
            .iter_mut()
            .for_each(|byte| *byte = table[usize::from(*byte)]);
    }

    /// Replaces the bytes of each channel by what a table, made of how often each byte is in the channel, has for them.
    fn by_channel(&mut self, table: impl Fn(&[usize; 256]) -> [u8; 256]) {
        let channels = self.channels();
        for channel in 0..channels {
            let mut counts = [0; 256];
            for byte in self.bytes().iter().skip(channel).step_by(channels) {
                counts[usize::from(*byte)] += 1;
            }
            let table = table(&counts);
            for byte in self.bytes_mut().iter_mut().skip(channel).step_by(channels) {
                *byte = table[usize::from(*byte)];
            }
        }
    }
}

/// A colour with its hue turned, by way of hue, chroma and the greatest channel.
fn turned(pixel: [u8; 3], turn: f32) -> [u8; 3] {
    let [red, green, blue] = pixel.map(f32::from);
    let greatest = red.max(green).max(blue);
    let chroma = greatest - red.min(green).min(blue);
    if chroma == 0.0 {
        return pixel;
    }
    // In sixths of the circle, from red over green to blue.
    let hue = if greatest == red {
        (green - blue) / chroma
    } else if greatest == green {
        (blue - red) / chroma + 2.0
    } else {
        (red - green) / chroma + 4.0
    };
    let hue = hue + 6.0 * turn;
    // A channel has all of the chroma up to one sixth from its hue, and nothing from two sixths on.
    [0.0, 2.0, 4.0].map(|own: f32| {
        let distance = (hue - own).rem_euclid(6.0);
        let distance = distance.min(6.0 - distance);
        let missing = (distance - 1.0).clamp(0.0, 1.0);
        (greatest - chroma * missing + 0.5) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bytes: &[u8], channels: usize, change: impl Fn(&mut Image)) -> Vec<u8> {
        let mut image = Image::new([1, bytes.len() / channels, channels], bytes.to_vec());
        change(&mut image);
        image.bytes().to_vec()
    }

    #[test]
    fn brightness_and_contrast_blend_with_black_and_the_mean() {
        let bytes = [10, 100, 205];
        assert_eq!(after(&bytes, 1, |image| image.bright(0.5)), [5, 50, 103]);
        assert_eq!(after(&bytes, 1, |image| image.bright(1.5)), [15, 150, 255]);
        // The mean is 105.
        assert_eq!(after(&bytes, 1, |image| image.contrasted(0.0)), [105; 3]);
        assert_eq!(after(&bytes, 1, |image| image.contrasted(2.0)), [0, 95, 255]);
        assert_eq!(after(&bytes, 1, |image| image.contrasted(1.0)), bytes);
    }

    #[test]
    fn saturation_blends_with_grey() {
        // 0.298996 * 200 + 0.587006 * 100 = 118.4998.
        let grey = after(&[200, 100, 0], 3, |image| image.saturated(0.0));
        assert_eq!(grey, [118, 118, 118]);
        assert_eq!(after(&[200, 100, 0], 3, |image| image.saturated(0.5)), [159, 109, 59]);
        assert_eq!(after(&[200, 100], 1, |image| image.saturated(0.5)), [200, 100]);
    }

    #[test]
    fn hues_turn_from_red_to_green_to_blue() {
        let red = [200, 20, 20];
        assert_eq!(turned(red, 1.0 / 3.0), [20, 200, 20]);
        assert_eq!(turned(red, -1.0 / 3.0), [20, 20, 200]);
        assert_eq!(turned(red, 0.5), [20, 200, 200]);
        assert_eq!(turned(red, 1.0 / 6.0), [200, 200, 20]);
        // Orange, 30 degrees, turned by 90.
        assert_eq!(turned([200, 100, 0], 0.25), [0, 200, 0]);
        assert_eq!(turned([200, 100, 0], -1.0 / 12.0), [200, 0, 0]);
        assert_eq!(turned([9, 9, 9], 0.3), [9, 9, 9]);
        for pixel in [[1, 2, 3], [250, 3, 90], [7, 7, 8], [255, 255, 0]] {
            assert_eq!(turned(turned(pixel, 0.5), -0.5), pixel);
        }
    }

    #[test]
    fn the_middle_is_blurred_and_sharpened_but_not_the_border() {
        let mut bytes = vec![10; 9];
        bytes[4] = 140;
        let image = Image::new([3, 3, 1], bytes.clone());
        // (8 * 10 + 5 * 140) / 13 = 60.
        bytes[4] = 60;
        assert_eq!(image.sharpened(0.0).bytes(), bytes);
        bytes[4] = 100;
        assert_eq!(image.sharpened(0.5).bytes(), bytes);
        assert_eq!(image.sharpened(1.0), image);
        bytes[4] = 220;
        assert_eq!(image.sharpened(2.0).bytes(), bytes);
        let thin = Image::new([1, 2, 1], vec![1, 2]);
        assert_eq!(thin.sharpened(0.0), thin);
    }

    #[test]
    fn single_bytes_are_cut_and_turned() {
        assert_eq!(
            after(&[0b1011_0111, 255, 0], 1, |image| image.posterized(3)),
            [0b1010_0000, 0b1110_0000, 0]
        );
        assert_eq!(after(&[1, 254], 1, |image| image.posterized(8)), [1, 254]);
        assert_eq!(after(&[1, 254], 1, |image| image.posterized(0)), [0, 0]);
        assert_eq!(
            after(&[0, 99, 100, 255], 1, |image| image.solarized(100)),
            [0, 99, 155, 0]
        );
        assert_eq!(after(&[0, 255], 1, |image| image.solarized(256)), [0, 255]);
    }

    #[test]
    fn channels_are_stretched_each_by_itself() {
        let stretched = after(&[10, 7, 50, 60, 7, 70, 30, 7, 55], 3, Image::auto_contrasted);
        // 20 / 50 and 5 / 20 of 255.
        assert_eq!(stretched, [0, 7, 0, 255, 7, 255, 102, 7, 64]);
    }

    #[test]
    fn an_even_slope_stays_and_a_heap_is_spread() {
        let slope: Vec<u8> = (0..512).map(|at| (at / 2) as u8).collect();
        // 510 pixels but the brightest make steps of 2.
        assert_eq!(after(&slope, 1, Image::equalized), slope);
        let mut heap = vec![100; 255];
        heap.extend([101; 255]);
        heap.push(102);
        // Steps of 2, and a first rest of 1: (1 + 0) / 2, (1 + 255) / 2, (1 + 510) / 2.
        let spread = after(&heap, 1, Image::equalized);
        assert_eq!((spread[0], spread[255], spread[510]), (0, 128, 255));
        assert_eq!(after(&[5, 6], 1, Image::equalized), [5, 6]);
    }
}
