//! The order of examples in each epoch.

use std::sync::{Arc, Mutex, PoisonError};

use lessen_base::SplitMix64;

/// The order of training examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order of the data, the same in every epoch.
    InOrder,
    /// A permutation that depends on this seed and the epoch.
    Shuffled(u64),
}

/// Puts numbers into another order.
type Arrange = Box<dyn Fn(&mut [u32]) + Send + Sync>;

/// A permutation of `0..len` for each epoch; the last one is cached.
pub(crate) struct Epochs {
    len: usize,
    order: Order,
    arrange: Option<Arrange>,
    cache: Mutex<Option<(u64, Arc<[u32]>)>>,
}

impl Epochs {
    /// Makes epochs over `len` examples, which must fit in 32 bits.
    pub(crate) fn new(len: usize, order: Order) -> Epochs {
        assert!(u32::try_from(len).is_ok(), "{len} examples do not fit in 32 bits");
        Epochs {
            len,
            order,
            arrange: None,
            cache: Mutex::new(None),
        }
    }

    /// The same epochs, each put into another order by `arrange`, which keeps all numbers.
    pub(crate) fn arranged(self, arrange: impl Fn(&mut [u32]) + Send + Sync + 'static) -> Epochs {
        let arrange = Some(Box::new(arrange) as _);
        Epochs { arrange, ..self }
    }

    /// Returns the number of examples in an epoch.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the examples of an epoch in order.
    pub(crate) fn order(&self, epoch: u64) -> Arc<[u32]> {
        // Without shuffling, all epochs are equal.
        let epoch = if self.order == Order::InOrder { 0 } else { epoch };
        // The cache is consistent even if a thread panicked while it held the lock.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, order)) = &*cache
            && *number == epoch
        {
            return order.clone();
        }
        let mut order: Vec<u32> = (0..self.len as u32).collect();
        if let Order::Shuffled(seed) = self.order {
            SplitMix64::keyed(seed, epoch).shuffle(&mut order);
        }
        if let Some(arrange) = &self.arrange {
            arrange(&mut order);
        }
        let order: Arc<[u32]> = order.into();
        *cache = Some((epoch, order.clone()));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_never_changes() {
        let epochs = Epochs::new(4, Order::InOrder);
        assert_eq!(*epochs.order(0), [0, 1, 2, 3]);
        assert_eq!(*epochs.order(9), [0, 1, 2, 3]);
    }

    #[test]
    fn shuffled_epochs_are_permutations_that_depend_on_seed_and_epoch_alone() {
        let epochs = Epochs::new(100, Order::Shuffled(7));
        let (third, first) = (epochs.order(2), epochs.order(0));
        let mut sorted = first.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<u32>>());
        assert_ne!(first, third);
        assert_eq!(Epochs::new(100, Order::Shuffled(7)).order(2), third);
        assert_ne!(Epochs::new(100, Order::Shuffled(8)).order(2), third);
    }

    #[test]
    fn a_seed_means_the_same_order_for_ever() {
        assert_eq!(*Epochs::new(8, Order::Shuffled(0)).order(0), RECORDED);
    }

    // Recorded once: a change breaks the exact resume of older runs.
    const RECORDED: [u32; 8] = [3, 0, 5, 4, 7, 6, 1, 2];
}
