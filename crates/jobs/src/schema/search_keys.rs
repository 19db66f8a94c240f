//! The keys of searches. Their readers are ways to search: by a supernet, or for the bits of a network.

use lessen_base::words;
use lessen_compile::Precision;
use lessen_nn::layers::Spread;
use lessen_search::{CostGradient, CostKind};
use lessen_task::recipe::keys::{NOT_NEGATIVE, SHARE, SWITCH, TEXT, choice, count, path};
use lessen_task::settings;
use std::path::PathBuf;

words! {
    /// The spaces of searches.
    pub enum SpaceKind {
        /// For images of 224 pixels.
        Imagenet = "imagenet",
        /// For images of CIFAR: the first two convolutions of stride 2 have none.
        Cifar = "cifar",
    }
}

words! {
    /// What is searched, and how.
    pub enum SearchMethod {
        /// Architecture and bits together, by a supernet.
        Joint = "joint",
        /// The architecture alone, with the same bits everywhere.
        Architecture = "architecture",
        /// The bits of a network, exactly by measured sensitivities.
        Allocation = "allocation",
        /// The bits of a network, by reinforcement learning.
        Haq = "haq",
    }
}

settings! {
    /// Search for architecture and precision on a data set of images (`lessen search`).
    search: SearchKeys {
        method: Option<SearchMethod> [choice()],
            "architecture and bits together (joint), the architecture alone with bits of search.bits everywhere \
             (architecture), or the bits of search.architecture: exactly by measured sensitivities (allocation) or by \
             reinforcement learning (haq; default: joint)";
        space: Option<SpaceKind> [choice()],
            "blocks of table 2.10 of Jiang (2023), for images of 224 pixels or of CIFAR (default: cifar up to 64 \
             pixels)";
        width: Option<f64> [NOT_NEGATIVE] of supernet, "factor of all channels, rounded to multiples of 4 (default: 1)";
        depth: Option<usize> [count(1)] of supernet, "most blocks of a row of the table (default: all)";
        kernels: Option<String> [TEXT] of supernet, "kernels of a block (default: 3,5,7)";
        expansions: Option<String> [TEXT] of supernet, "factors of the channels inside a block (default: 1,3,6)";
        bits: Option<String> [TEXT],
            "bits of the layers of a block (default: 2,4,6,8; of search.method = \"architecture\" 8)";
        architecture: Option<PathBuf> [path(&[])] of allocation haq,
            "file with the network whose bits are searched, such as architecture.json of a search (default: \
             MobileNetV2)";
        cost: Option<CostKind> [choice()],
            "what a network costs (--cost): energy in mJ, latency in ms or size of the weights in MB (default: \
             energy)";
        limit: Option<String> [TEXT],
            "most that the network may cost (--limit), such as 1.2mJ, 3ms or 0.5MB; only the mean cost beyond it \
             counts (default: none, every cost counts)";
        lambda: Option<f64> [NOT_NEGATIVE] of supernet,
            "weight of the mean cost beyond the limit in the loss of the architecture, for a cost in mJ, ms or MB \
             (default: 0.1)";
        accelerator: Option<String> [path(&["bf_e", "bf_s", "haq"])],
            "hardware (--accelerator): bf_e or bf_s, which are BitFusion in two sizes, haq, the bit-serial latencies \
             of HAQ's code, or a TOML file of an accelerator (default: bf_e)";
        depthwise: Option<String> [TEXT],
            "how BitFusion computes convolutions with groups, as --depthwise of `lessen energy` (default: that of \
             per-group, columns, taps and dense with which the cheapest network costs least)";
        cost_batch: Option<usize> [count(1)],
            "images that go through a network together where its cost is told; it is of one of them (default: 16)";
        epochs: Option<usize> [count(1)],
            "epochs of the search, or of the training with 8 bits before bits are searched (--epochs; default: 60)";
        frozen_epochs: Option<usize> [count(0)] of supernet, "epochs at first in which only weights move (default: 10)";
        batch: Option<usize> [count(1)], "images of a step (default: 64)";
        validation: Option<f64> [SHARE],
            "share of the training images by which the architecture is updated, or bits are judged (default: 0.2)";
        weight_rate: Option<f64> [NOT_NEGATIVE],
            "learning rate of the weights at first, which falls to 0 by a cosine (default: 0.1)";
        weight_momentum: Option<f64> [SHARE], "momentum of the weights, below 1 (default: 0.9)";
        weight_decay: Option<f64> [NOT_NEGATIVE], "decay of the weights, a term of the gradient (default: 4e-5)";
        clip: Option<f64> [NOT_NEGATIVE], "greatest magnitude of an element of a gradient of the weights (default: 5)";
        logit_rate: Option<f64> [NOT_NEGATIVE] of supernet,
            "learning rate of the architecture, by Adam (default: 0.01)";
        logit_decay: Option<f64> [NOT_NEGATIVE] of supernet, "decay of the architecture's logits (default: 5e-4)";
        temperature: Option<f64> [NOT_NEGATIVE] of supernet,
            "temperature of the Gumbel softmax in the first epoch (default: 5)";
        cooling: Option<f64> [NOT_NEGATIVE] of supernet,
            "each epoch has exp(-cooling) of the temperature before (default: 0.045)";
        unrolled: Option<bool> [SWITCH] of supernet,
            "whether the architecture is updated by the loss after one step of the weights (equation 2.31), with \
             second derivatives; else by that of the present weights (default: false)";
        samples: Option<usize> [count(1)] of supernet,
            "samples of the Gumbel softmax in an update of the architecture (default: 1)";
        cost_gradient: Option<CostGradient> [choice()] of supernet,
            "derivative of the mean cost: by REINFORCE, or exact from the table of costs (default: reinforce)";
        cost_samples: Option<usize> [count(1)] of supernet, "networks that REINFORCE draws in an update (default: 16)";
        spread: Option<Spread> [choice()],
            "how the norms of the supernet, and of the recipe of what is found, measure the spread of a channel, as \
             model.batch_norm (default: range)";
        label_smoothing: Option<f64> [SHARE], "probability that is spread over all classes (default: 0.1)";
        mixup: Option<f64> [NOT_NEGATIVE],
            "images of a batch are mixed in pairs, with shares of Beta(a, a) for this a; 0 is none (default: 0.2)";
        augment: Option<bool> [SWITCH], "whether images are shifted by up to 4 pixels and mirrored (default: true)";
        episodes: Option<usize> [count(1)] of haq, "haq: networks that are tried (default: 600)";
        random_episodes: Option<usize> [count(0)] of haq,
            "haq: episodes at first whose bits are drawn at random (default: 20)";
        tune_epochs: Option<usize> [count(0)] of haq,
            "haq: epochs of training with other bits before they are judged (default: 1)";
        seed: Option<u64> [count(0)], "seed of weights, images and samples (--seed; default: 1)";
        precision: Option<Precision> [choice()], "dtype that products and convolutions read (default: f32)";
        checkpoint_minutes: Option<f64> [NOT_NEGATIVE],
            "minutes between checkpoints, the first after half a minute at most; 0 is none of them (default: 5)";
    }
}
