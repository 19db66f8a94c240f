//! A target whose answers about operations are kept: a compilation asks for each of them many times, and making one may
//! take as long as making a kernel.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use lessen_graph::{Op, Type};

use crate::costs::CostModel;
use crate::target::{Limits, Lowering, RowBlocks, RowGroup, Target};

/// A target with the lowerings that it has been asked for.
pub(crate) struct Memo<'a> {
    target: &'a dyn Target,
    limits: Limits,
    /// Known lowerings, by a hash of operation and types.
    known: Mutex<HashMap<u64, Vec<Known>>>,
}

/// A lowering, with the operation and the types that it belongs to.
struct Known {
    op: TypeId,
    fingerprint: u64,
    inputs: Vec<Type>,
    outputs: Vec<Type>,
    lowering: Arc<Lowering>,
}

impl<'a> Memo<'a> {
    pub(crate) fn new(target: &'a dyn Target) -> Memo<'a> {
        Memo {
            target,
            limits: target.limits(),
            known: Mutex::default(),
        }
    }
}

impl Target for Memo<'_> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn supports(&self, op: &dyn Op) -> bool {
        self.target.supports(op)
    }

    fn lower(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Arc<Lowering> {
        let (of, fingerprint) = ((op as &dyn Any).type_id(), op.fingerprint());
        let mut hasher = DefaultHasher::new();
        (of, fingerprint, inputs, outputs).hash(&mut hasher);
        let key = hasher.finish();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &&Known| {
            known.op == of && known.fingerprint == fingerprint && known.inputs == inputs && known.outputs == outputs
        };
        if let Some(found) = known().get(&key).and_then(|all| all.iter().find(is_same)) {
            return found.lowering.clone();
        }
        let lowering = self.target.lower(op, inputs, outputs);
        known().entry(key).or_default().push(Known {
            op: of,
            fingerprint,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            lowering: lowering.clone(),
        });
        lowering
    }

    fn blocks(&self, group: &RowGroup) -> RowBlocks {
        self.target.blocks(group)
    }

    fn costs(&self) -> &dyn CostModel {
        self.target.costs()
    }
}
