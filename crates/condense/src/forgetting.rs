//! Forgetting events (Toneva et al. 2019): how often a network that knew the class of an image knows it no longer.

/// What a network knew of each image whenever it was presented in training.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forgetting {
    /// Of each image: whether its class was known when it was presented last.
    is_known: Vec<bool>,
    /// Of each image: whether its class was ever known.
    was_known: Vec<bool>,
    /// Of each image: how often its class had been known at one presentation and was not at the next.
    events: Vec<u32>,
}

impl Forgetting {
    /// The history of this many images, none of which has been presented.
    pub fn new(images: usize) -> Forgetting {
        Forgetting {
            is_known: vec![false; images],
            was_known: vec![false; images],
            events: vec![0; images],
        }
    }

    /// An image has been presented; `is_known` says whether the network gave it its class.
    pub fn present(&mut self, image: usize, is_known: bool) {
        if self.is_known[image] && !is_known {
            self.events[image] += 1;
        }
        self.is_known[image] = is_known;
        self.was_known[image] |= is_known;
    }

    /// The forgetting events of an image; `None` if its class was never known.
    pub fn events(&self, image: usize) -> Option<u32> {
        self.was_known[image].then_some(self.events[image])
    }

    /// The `count` images of these that were forgotten most often, most often first. An image whose class was never
    /// known counts as forgotten more often than any other, as in the published code; of images that were forgotten as
    /// often the first come first.
    pub fn most_forgotten(&self, images: &[usize], count: usize) -> Vec<usize> {
        let mut order = images.to_vec();
        order.sort_by_key(|image| std::cmp::Reverse(self.events(*image).unwrap_or(u32::MAX)));
        order.truncate(count);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_from_known_to_unknown() {
        // A row for each image: whether its class was known, presentation by presentation.
        let presentations = [
            [true, true, true, true, true],
            [false, true, false, true, false],
            [false, false, false, false, false],
            [true, false, false, false, true],
            [false, false, true, false, true],
            [false, false, true, true, true],
        ];
        let mut history = Forgetting::new(presentations.len());
        for time in 0..5 {
            for (image, known) in presentations.iter().enumerate() {
                history.present(image, known[time]);
            }
        }
        let events: Vec<Option<u32>> = (0..6).map(|image| history.events(image)).collect();
        assert_eq!(events, [Some(0), Some(2), None, Some(1), Some(1), Some(0)]);
        assert_eq!(history.most_forgotten(&[0, 1, 2, 3, 4, 5], 4), [2, 1, 3, 4]);
        assert_eq!(history.most_forgotten(&[5, 4, 0], 2), [4, 5]);
    }
}
