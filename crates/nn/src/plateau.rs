//! A learning rate that is reduced when a loss falls no more.

/// Reduces a learning rate when a loss falls no more, as PyTorch's `ReduceLROnPlateau`: the loss counts as lower if it
/// is below `best (1 - threshold)`. After more than `patience` losses in turn that are not lower, the rate is
/// multiplied by `factor`. A loss that is no number is not lower.
#[derive(Clone, PartialEq, Debug)]
pub struct Plateau {
    /// The learning rate.
    pub lr: f64,
    /// Factor of a reduction.
    pub factor: f64,
    /// Losses in turn that may fail to be lower.
    pub patience: usize,
    /// Least relative fall of a loss that counts as lower.
    pub threshold: f64,
    /// Least learning rate.
    pub least: f64,
    best: f64,
    waited: usize,
}

impl Plateau {
    /// PyTorch's defaults: factor 0.1, patience 10, threshold 1e-4, least rate 0.
    pub fn new(lr: f64) -> Plateau {
        Plateau {
            lr,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            least: 0.0,
            best: f64::INFINITY,
            waited: 0,
        }
    }

    /// Takes the next loss, such as that of an evaluation, and returns the learning rate from now on.
    pub fn observe(&mut self, loss: f64) -> f64 {
        if loss < self.best * (1.0 - self.threshold) {
            self.best = loss;
            self.waited = 0;
        } else {
            self.waited += 1;
        }
        if self.waited > self.patience {
            self.lr = (self.lr * self.factor).max(self.least);
            self.waited = 0;
        }
        self.lr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_does_not_fall_reduces_the_rate_after_the_patience() {
        let mut plateau = Plateau {
            factor: 0.5,
            patience: 1,
            least: 0.3,
            ..Plateau::new(1.0)
        };
        // The last fall is below the threshold, and NaN is no fall.
        let losses = [4.0, 2.0, 2.0, 3.0, f64::NAN, 1.99999, 0.5, 0.6, 0.6];
        let rates: Vec<f64> = losses.into_iter().map(|loss| plateau.observe(loss)).collect();
        assert_eq!(rates, [1.0, 1.0, 1.0, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3]);
    }
}
