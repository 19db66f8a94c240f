//! The words that keys take.

use lessen_base::words;

words! {
    /// The optimizers.
    pub enum OptimizerKind {
        /// AdamW (Loshchilov and Hutter 2019).
        Adamw = "adamw",
        /// AdamW with 8-bit moments (Dettmers et al. 2022).
        Adamw8bit = "adamw_8bit",
        /// Adam (Kingma and Ba 2015).
        Adam = "adam",
        /// Stochastic gradient descent with momentum.
        Sgd = "sgd",
        /// Adagrad (Duchi, Hazan and Singer 2011).
        Adagrad = "adagrad",
        /// Adadelta (Zeiler 2012).
        Adadelta = "adadelta",
        /// RMSprop (Tieleman and Hinton 2012).
        Rmsprop = "rmsprop",
        /// Lion (Chen et al. 2023).
        Lion = "lion",
        /// Adafactor (Shazeer and Stern 2018).
        Adafactor = "adafactor",
    }
}

words! {
    /// Which batches statistics are recorded on.
    pub enum RecordSplit {
        /// That of the step to come, with its dropout.
        Train = "train",
        /// The first one of the split `dev`, without dropout.
        Dev = "dev",
        /// Both of them.
        Both = "both",
    }
}
