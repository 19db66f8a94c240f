//! The exchange of gradients between processes, a chunk at a time, so that it takes little memory beside the gradients.

use super::steps::Steps;
use crate::array::write_le;
use crate::dealing::{CHUNK, UNDER_WAY};
use crate::session::Session;
use lessen_base::{Error, Result};
use lessen_device::{Host, HostArray};
use lessen_graph::DType;
use lessen_nn::names::held_sum_of;
use std::collections::VecDeque;
use std::ops::Range;

/// A stretch of the sum of a parameter's gradients.
struct Stretch<'a> {
    name: &'a str,
    elements: Range<usize>,
}

impl Steps {
    /// Adds up the gradients of all processes.
    ///
    /// # Errors
    /// A process that does not answer.
    pub(super) fn exchange(&self, session: &mut Session) -> Result<()> {
        let group = &self.options.group;
        if group.size() == 1 {
            return Ok(());
        }
        let (mut adding, mut gathering) = (VecDeque::new(), VecDeque::new());
        let mut rest = self.chunks(session).into_iter().peekable();
        while rest.peek().is_some() || !adding.is_empty() || !gathering.is_empty() {
            if let Some(chunk) = rest.next() {
                let own = self.own_sums(session, &chunk)?;
                adding.push_back((chunk, group.begin_sum("the gradients", self.options.ranks, own)));
            }
            let is_last = rest.peek().is_none();
            if (adding.len() > UNDER_WAY || is_last)
                && let Some((chunk, sum)) = adding.pop_front()
            {
                gathering.push_back((chunk, sum.gather()?));
            }
            if (gathering.len() > UNDER_WAY || adding.is_empty())
                && let Some((chunk, sum)) = gathering.pop_front()
            {
                set_sums(session, &chunk, &sum.end()?)?;
            }
        }
        Ok(())
    }

    /// The sums of gradients in chunks.
    fn chunks(&self, session: &Session) -> Vec<Vec<Stretch<'_>>> {
        let (mut chunks, mut chunk, mut room) = (Vec::new(), Vec::new(), CHUNK / size_of::<f32>());
        for name in &self.gradient_sums {
            let (mut start, end) = (0, session.state_bytes(name) / size_of::<f32>());
            while start < end {
                let next = end.min(start + room);
                chunk.push(Stretch {
                    name,
                    elements: start..next,
                });
                room -= next - start;
                start = next;
                if room == 0 {
                    chunks.push(std::mem::take(&mut chunk));
                    room = CHUNK / size_of::<f32>();
                }
            }
        }
        chunks.extend((!chunk.is_empty()).then_some(chunk));
        chunks
    }

    /// The sums of a chunk over the subtrees of this process.
    fn own_sums(&self, session: &Session, chunk: &[Stretch<'_>]) -> Result<Vec<Vec<u8>>> {
        let sums = self.groups.dealing.sums.len();
        let of = |slot: usize| {
            let mut bytes = Vec::with_capacity(CHUNK);
            for Stretch { name, elements } in chunk {
                // The last sum is not held.
                let held = (slot + 1 < sums).then(|| held_sum_of(name, slot));
                let mut is_read = false;
                session.visit_state(held.as_deref().unwrap_or(name), &mut |host| {
                    if let Some(own) = host.as_f32().and_then(|all| all.get(elements.clone())) {
                        // Writing to a vector does not fail.
                        is_read = write_le(Host::F32(own), &mut bytes).is_ok();
                    }
                })?;
                if !is_read {
                    return Err(Error::internal(format!("the sum of gradients `{name}` cannot be read")));
                }
            }
            Ok(bytes)
        };
        (0..sums).map(of).collect()
    }
}

/// Sets the sums of a chunk.
fn set_sums(session: &mut Session, chunk: &[Stretch<'_>], mut bytes: &[u8]) -> Result<()> {
    for Stretch { name, elements } in chunk {
        let own = bytes.split_off(..size_of::<f32>() * elements.len());
        let own = own.ok_or_else(|| Error::internal("a sum of gradients is too short"))?;
        session.set_state_at(name, elements.start, &HostArray::from_le_bytes(DType::F32, own))?;
    }
    Ok(())
}
