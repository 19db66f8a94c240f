//! The keys of condensations. Their readers are what is matched, of coresets those whose network is trained.

use lessen_compile::Precision;
use lessen_condense::{Distance, InnerEpochs, Level, Method, Start, Strategy};
use lessen_nn::models::vision::Network;
use lessen_task::recipe::keys::{NOT_NEGATIVE, SHARE, choice, count, form};
use lessen_task::settings;

settings! {
    /// Condensation of a data set of images (`lessen condense`).
    condense: CondenseKeys {
        per_class: Option<usize> [count(1)], "synthetic images of each class (--per-class; default: 1)";
        network: Option<Network> [choice()], "network that is matched (default: convnet-3)";
        width: Option<usize> [count(1)], "channels of each convolution of convnet-3 (default: 128)";
        depth: Option<usize> [count(1)], "blocks of convnet-3 (default: 3)";
        method: Option<Method> [choice()],
            "settings by name (--method), which decide the defaults of the keys below: of Jiang (2023) gradients of \
             each class, their angle and a fixed schedule (baseline), gradients of several levels (m), also their \
             magnitude (md), and the network trained until it overfits (mdo) or by an adaptive schedule (mda); of \
             others the baseline with siamese augmentation (dsa), means of features (dm), and ways of networks that \
             are trained on the real images (mtt); or real images that are chosen (random, herding, k-center, \
             forgetting; default: mda)";
        iterations: Option<usize> [count(1)] of gradients distribution trajectories,
            "outer iterations, each with a new network (--iterations; default: as many as fill condense.minutes, \
             settled after half of them)";
        minutes: Option<f64> [NOT_NEGATIVE] of gradients distribution trajectories,
            "minutes to fill where no number of iterations is given (default: 5)";
        updates: Option<usize> [count(1)] of gradients distribution trajectories,
            "updates of the images in an outer iteration (default: those of the papers for the number of images of a \
             class)";
        epochs: Option<InnerEpochs> [form(InnerEpochs::words)] of gradients trained,
            "epochs of the network over the synthetic images between two updates of these; of a coreset over all \
             images (default: the method's)";
        level: Option<Level> [choice()] of gradients,
            "gradients that are matched: of each class, of all classes together, of both in turns, of both in each \
             update (default: multi, of the baseline intra)";
        lambda: Option<f64> [NOT_NEGATIVE] of gradients,
            "weight of the gradients of all classes together (default: the number of classes)";
        distance: Option<Distance> [form(Distance::words)] of gradients,
            "distance of gradients: one less the cosine (d1), Euclidean (d2), squared (d3), mean squared (d4) \
             (default: d1+d2, of the baseline and m d1)";
        image_rate: Option<f64> [NOT_NEGATIVE] of gradients distribution trajectories,
            "learning rate of the images (default: 0.1, for network mlp 0.01, of dm 1, of mtt 1000)";
        image_momentum: Option<f64> [SHARE] of gradients distribution trajectories,
            "momentum of the images' updates, below 1 (default: 0.5)";
        network_rate: Option<f64> [NOT_NEGATIVE] of gradients trajectories trained,
            "learning rate of the network (default: 0.01)";
        network_momentum: Option<f64> [SHARE] of gradients trajectories trained,
            "momentum of the network's updates, below 1 (default: 0.5, of dsa and mtt 0)";
        real_batch: Option<usize> [count(1)] of gradients distribution trajectories,
            "real images of a class in an update of the images, at most all of the smallest class (default: 256, and \
             16 where gradients are matched and a time is to be filled)";
        network_batch: Option<usize> [count(1)] of gradients trajectories trained,
            "synthetic images in a step of the network, of mtt real images in a step of an expert (default: 256)";
        start: Option<Start> [choice()] of gradients distribution trajectories,
            "first values of the images: normal noise, or real images of the class (default: noise, of dsa, dm and \
             mtt real)";
        augment: Option<Strategy> [form(Strategy::words)] of gradients distribution trajectories,
            "siamese augmentation of real and synthetic images (default: none, of dsa, dm and mtt all of these, \
             without flip for the recipe mnist)";
        soft_labels: Option<f64> [NOT_NEGATIVE] of gradients trajectories,
            "learning rate of soft labels, which are learned with the images; 0 is none (default: none)";
        experts: Option<usize> [count(1)] of trajectories,
            "mtt: networks that are trained on the real images (default: 5)";
        expert_epochs: Option<usize> [count(1)] of trajectories, "mtt: epochs of each of them (default: 10)";
        start_epochs: Option<usize> [count(1)] of trajectories,
            "mtt: epochs of an expert after which a student begins are below this number (default: 8)";
        target_epochs: Option<usize> [count(1)] of trajectories,
            "mtt: epochs of the expert from there to what the student is to reach (default: 3)";
        student_steps: Option<usize> [count(1)] of trajectories, "mtt: steps of a student (default: 20)";
        student_batch: Option<usize> [count(1)] of trajectories,
            "mtt: synthetic images in a step of a student (default: all of them)";
        student_rate: Option<f64> [NOT_NEGATIVE] of trajectories,
            "mtt: learning rate of students at first, which is learned with the images (default: 0.01)";
        student_rate_rate: Option<f64> [NOT_NEGATIVE] of trajectories,
            "mtt: learning rate of that learning rate (default: 1e-5)";
        seed: Option<u64> [count(0)], "seed of the images, the networks and all batches (--seed; default: 1)";
        precision: Option<Precision> [choice()] of gradients distribution trajectories trained,
            "dtype that products and convolutions read (default: f32)";
        checkpoint_minutes: Option<f64> [NOT_NEGATIVE] of gradients distribution trajectories,
            "minutes between checkpoints, the first after half a minute at most; 0 is none of them (default: 5)";
    }
}
