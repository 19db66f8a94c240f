//! Choice among boxes that overlap.

use lessen_base::Result;

use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[("", "NonMaxSuppression", non_max_suppression)];

/// A box by its lower and upper ends.
#[derive(Clone, Copy)]
struct Area {
    low: [f32; 2],
    high: [f32; 2],
}

impl Area {
    /// A box of two opposite corners `(y1, x1, y2, x2)`, or of a centre and extents `(x, y, width, height)`.
    fn of(numbers: &[f32], is_center: bool) -> Area {
        let ends = |axis: usize| {
            let (a, b) = (numbers[axis], numbers[axis + 2]);
            if is_center {
                (a - b / 2.0, a + b / 2.0)
            } else {
                (a.min(b), a.max(b))
            }
        };
        let ((low_0, high_0), (low_1, high_1)) = (ends(0), ends(1));
        Area {
            low: [low_0, low_1],
            high: [high_0, high_1],
        }
    }

    fn size(&self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Whether the shared part of both boxes is more than a share of what they cover.
    fn overlaps(&self, other: &Area, share: f32) -> bool {
        let both = |axis: usize| self.high[axis].min(other.high[axis]) - self.low[axis].max(other.low[axis]);
        let (height, width) = (both(0), both(1));
        if height <= 0.0 || width <= 0.0 {
            return false;
        }
        let intersection = height * width;
        let union = self.size() + other.size() - intersection;
        self.size() > 0.0 && other.size() > 0.0 && union > 0.0 && intersection / union > share
    }
}

/// `NonMaxSuppression(boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold)`: by image and class,
/// the boxes of the highest scores that do not overlap one that is chosen before.
fn non_max_suppression(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (boxes, scores) = (call.tensor(0)?, call.tensor(1)?);
    let (&[batch, count, 4], &[images, classes, each]) = (boxes.shape(), scores.shape()) else {
        return call.refused(format!(
            "boxes of {:?} do not fit scores of {:?}",
            boxes.shape(),
            scores.shape()
        ));
    };
    let (Data::F32(boxes), Data::F32(scores)) = (boxes.data(), scores.data()) else {
        return call.refused("its boxes and scores are no floats of 32 bits");
    };
    if batch != images || count != each {
        return call.refused(format!(
            "it has {batch} x {count} boxes and scores of {images} x {each}"
        ));
    }
    let most = match call.has(2) {
        true => call.integers(2)?.first().copied().unwrap_or(0),
        false => 0,
    };
    let number = |input: usize| -> Result<Option<f32>> {
        let given = call.has(input).then(|| call.number(input)).transpose()?;
        Ok(given.map(|x| x as f32))
    };
    let share = number(3)?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&share) {
        return call.refused(format!("its iou_threshold is {share}"));
    }
    let threshold = number(4)?;
    let is_center = match call.int("center_point_box", 0) {
        0 => false,
        1 => true,
        other => return call.refused(format!("its center_point_box is {other}")),
    };
    let most = usize::try_from(most).unwrap_or(0);
    let areas: Vec<Area> = boxes
        .chunks_exact(4)
        .map(|numbers| Area::of(numbers, is_center))
        .collect();
    let mut selected: Vec<i64> = Vec::new();
    if most > 0 && count > 0 {
        for (part, scores) in scores.chunks_exact(count).enumerate() {
            let (image, class) = (part / classes, part % classes);
            let areas = &areas[image * count..][..count];
            for index in best(areas, scores, most, share, threshold) {
                selected.extend([image as i64, class as i64, index as i64]);
            }
        }
    }
    one(HostTensor::new(&[selected.len() / 3, 3], selected)?)
}

/// The boxes that are kept, by descending score; of equal scores the first box comes first.
fn best(areas: &[Area], scores: &[f32], most: usize, share: f32, threshold: Option<f32>) -> Vec<usize> {
    let is_high = |index: &usize| threshold.is_none_or(|threshold| scores[*index] > threshold);
    let mut order: Vec<usize> = (0..scores.len()).filter(is_high).collect();
    // A sum with zero has one sign of zero.
    order.sort_by(|a, b| (scores[*b] + 0.0).total_cmp(&(scores[*a] + 0.0)));
    let mut kept: Vec<usize> = Vec::new();
    for index in order {
        if kept.len() == most {
            break;
        }
        if kept.iter().all(|chosen| !areas[*chosen].overlaps(&areas[index], share)) {
            kept.push(index);
        }
    }
    kept
}
