//! A topological order that is kept while edges are added (Pearce and Kelly, "A dynamic topological sort algorithm for
//! directed acyclic graphs", 2006). An edge that agrees with the order costs nothing; another one costs a search
//! between its ends.

use std::collections::HashSet;

/// A directed acyclic graph with a topological order of its nodes.
pub(crate) struct Order {
    edges: Vec<(u32, u32)>,
    /// Edges by their ends, collected when an edge first disagrees with the order.
    adjacent: Option<Adjacent>,
    /// The position of each node.
    position: Vec<u32>,
}

/// The successors and the predecessors of each node.
struct Adjacent {
    successors: Vec<Vec<u32>>,
    predecessors: Vec<Vec<u32>>,
}

impl Adjacent {
    fn of(nodes: usize, edges: &[(u32, u32)]) -> Adjacent {
        let mut adjacent = Adjacent {
            successors: vec![Vec::new(); nodes],
            predecessors: vec![Vec::new(); nodes],
        };
        edges.iter().for_each(|&edge| adjacent.link(edge));
        adjacent
    }

    fn link(&mut self, (from, to): (u32, u32)) {
        self.successors[from as usize].push(to);
        self.predecessors[to as usize].push(from);
    }
}

impl Order {
    /// A graph whose nodes are in topological order; `edges` lead from lower to higher numbers.
    pub fn new(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Order {
        let edges: Vec<(u32, u32)> = edges.map(|(from, to)| (from as u32, to as u32)).collect();
        debug_assert!(edges.iter().all(|(from, to)| from < to), "edges lead forwards");
        Order {
            edges,
            adjacent: None,
            position: (0..nodes as u32).collect(),
        }
    }

    /// Adds edges from each of `sources` to `to`, unless one of the sources can be reached from `to`; then nothing
    /// changes. Returns whether they were added.
    pub fn add(&mut self, sources: &[usize], to: usize) -> bool {
        let last = sources.iter().map(|&s| self.position[s]).max().unwrap_or(0);
        if last > self.position[to] {
            let nodes = self.position.len();
            let adjacent = (self.adjacent.take()).unwrap_or_else(|| Adjacent::of(nodes, &self.edges));
            let after = self.reached(vec![to as u32], &adjacent.successors, |p| p <= last);
            let closes_circle = sources.iter().any(|&s| after.contains(&(s as u32)));
            if !closes_circle {
                self.reorder(sources, to, after, &adjacent);
            }
            self.adjacent = Some(adjacent);
            if closes_circle {
                return false;
            }
        }
        for &source in sources {
            let edge = (source as u32, to as u32);
            match &mut self.adjacent {
                Some(adjacent) => adjacent.link(edge),
                None => self.edges.push(edge),
            }
        }
        true
    }

    /// The nodes reachable over `edges` from `open` whose positions all pass `within`.
    fn reached(&self, mut open: Vec<u32>, edges: &[Vec<u32>], within: impl Fn(u32) -> bool) -> HashSet<u32> {
        let mut found: HashSet<u32> = open.iter().copied().collect();
        while let Some(node) = open.pop() {
            for &next in &edges[node as usize] {
                if within(self.position[next as usize]) && found.insert(next) {
                    open.push(next);
                }
            }
        }
        found
    }

    /// Moves the nodes `after`, which follow `to`, past the nodes that precede the sources. Together they keep the
    /// positions that they occupy.
    fn reorder(&mut self, sources: &[usize], to: usize, after: HashSet<u32>, adjacent: &Adjacent) {
        let first = self.position[to];
        let late: Vec<u32> = (sources.iter().map(|&s| s as u32))
            .filter(|&s| self.position[s as usize] > first)
            .collect();
        let before = self.reached(late, &adjacent.predecessors, |p| p > first);
        let in_order = |nodes: HashSet<u32>| {
            let mut nodes: Vec<u32> = nodes.into_iter().collect();
            nodes.sort_unstable_by_key(|&n| self.position[n as usize]);
            nodes
        };
        let moved = [in_order(before), in_order(after)].concat();
        let mut free: Vec<u32> = moved.iter().map(|&n| self.position[n as usize]).collect();
        free.sort_unstable();
        for (node, position) in moved.into_iter().zip(free) {
            self.position[node as usize] = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_base::SplitMix64;

    /// Whether `to` can be reached from `from` over edges.
    fn reaches(edges: &[(usize, usize)], from: usize, to: usize) -> bool {
        let (mut open, mut seen) = (vec![from], vec![from]);
        while let Some(node) = open.pop() {
            for &(_, next) in edges.iter().filter(|(a, _)| *a == node) {
                if !seen.contains(&next) {
                    seen.push(next);
                    open.push(next);
                }
            }
        }
        seen.contains(&to)
    }

    #[test]
    fn edges_are_added_unless_they_close_a_circle_and_the_order_stays_topological() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let n = 2 + random.below(14) as usize;
            let mut edges = Vec::new();
            for to in 1..n {
                for from in 0..to {
                    if random.below(4) == 0 {
                        edges.push((from, to));
                    }
                }
            }
            let mut order = Order::new(n, edges.iter().copied());
            for _ in 0..10 {
                let to = random.below(n as u64) as usize;
                let sources: Vec<usize> = (0..n).filter(|&s| s != to && random.below(6) == 0).collect();
                let circle = sources.iter().any(|&s| reaches(&edges, to, s));
                assert_eq!(order.add(&sources, to), !circle, "seed {seed}");
                if !circle {
                    edges.extend(sources.iter().map(|&s| (s, to)));
                }
                for &(a, b) in &edges {
                    assert!(order.position[a] < order.position[b], "seed {seed}: {a} before {b}");
                }
            }
        }
    }
}
