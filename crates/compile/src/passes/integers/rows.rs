//! Products of rows with a matrix of codes, and rows that are gathered from one.

use std::sync::Arc;

use lessen_graph::{DType, Node, ValueId, numel, ops};

use super::{Codes, Writer, coded, fixed_ranges};

impl Writer<'_> {
    /// The product of a node as one of codes, where its matrix has codes. The scales of a matrix `[K, N]` are those of
    /// `k`: the rows are multiplied by them before they get codes.
    pub(super) fn product(&mut self, node: &Node) -> Option<ValueId> {
        let graph = self.graph;
        let matmul = node.op.downcast_ref::<ops::MatMul>()?;
        let [rows, matrix] = node.inputs[..] else { return None };
        let (a, b) = (graph.ty(rows), graph.ty(matrix));
        let fits =
            matmul.is_linear(a, b) && a.dtype == DType::F32 && (1..=ops::QuantizedMatMul::MOST).contains(&a.last());
        if !fits {
            return None;
        }
        if let Some(grouped) = coded::grouped(graph, matrix) {
            // Rows of codes are what the product adds up.
            let adds_rows = matmul.transpose_b != grouped.is_turned;
            return adds_rows.then(|| self.grouped_product(node, rows, &grouped));
        }
        let [weight, weight_scale] = self.matrix(node, matrix, matmul.transpose_b)?;
        let lead = &a.shape[..a.rank() - 1];
        if matmul.transpose_b {
            let of_rows = match self.restored(node, rows, lead) {
                Some(of_rows) => of_rows,
                None => self.rows_of(node, rows),
            };
            return Some(self.multiplied(node, of_rows, [weight, weight_scale]));
        }
        let shape = a.shape.to_vec();
        let along = self.push(node, ops::Broadcast { shape }, &[weight_scale]);
        let times = ops::Binary {
            kind: ops::BinaryKind::Mul,
        };
        let x = self.rewriter.get(rows);
        let x = self.push(node, times, &[x, along]);
        let weight = self.push(node, ops::Permute { axes: vec![1, 0] }, &[weight]);
        let ones = self.full(node, &b.shape[1..], 1.0);
        let of_rows = self.rows(node, x);
        Some(self.multiplied(node, of_rows, [weight, ones]))
    }

    /// The codes of a matrix and their scales in the new graph. Those of kernels are put in the order of its columns,
    /// where the product adds up its rows.
    fn matrix(&mut self, node: &Node, matrix: ValueId, adds_rows: bool) -> Option<[ValueId; 2]> {
        if let Some(parts) = coded::matrix(self.graph, matrix) {
            return Some(parts.map(|part| self.rewriter.get(part)));
        }
        let kernels = coded::flattened(self.graph, matrix).filter(|_| adds_rows)?;
        let [codes, scale] = kernels.parts.map(|part| self.rewriter.get(part));
        let shape = kernels.shape;
        let codes = self.push(node, ops::Reshape { shape }, &[codes]);
        let axes = coded::CHANNELS_FIRST.to_vec();
        let codes = self.push(node, ops::Permute { axes }, &[codes]);
        let shape = self.graph.ty(matrix).shape.to_vec();
        Some([self.push(node, ops::Reshape { shape }, &[codes]), scale])
    }

    /// The codes of rows of the old graph: of the scale that the model rounds them to, or by their largest magnitudes.
    fn rows_of(&mut self, node: &Node, rows: ValueId) -> Codes {
        let x = self.rewriter.get(rows);
        let Some(levels) = fixed_ranges::levels_of(self.graph, rows) else {
            return self.rows(node, x);
        };
        if let Some(known) = self.codes.get(&(x, false)) {
            return *known;
        }
        let shape = self.graph.ty(rows).shape.to_vec();
        let [codes, scale] = fixed_ranges::codes_of(self.graph, levels, &shape, node, &mut self.rewriter);
        let zero = ops::QuantizedMatMul::default().zero;
        let codes = Codes { codes, scale, zero };
        self.codes.insert((x, false), codes);
        codes
    }

    /// The product of rows with a matrix of codes of 4 bits.
    fn grouped_product(&mut self, node: &Node, rows: ValueId, grouped: &coded::Grouped) -> ValueId {
        let rows = self.rows_of(node, rows);
        let [codes, scale] = grouped.parts.map(|part| self.rewriter.get(part));
        let op = ops::GroupedMatMul {
            group: grouped.op.group,
        };
        self.push(node, op, &[rows.codes, rows.scale, codes, scale])
    }

    fn multiplied(&mut self, node: &Node, rows: Codes, [weight, scale]: [ValueId; 2]) -> ValueId {
        let op = ops::QuantizedMatMul::new(rows.zero);
        self.push(node, op, &[rows.codes, rows.scale, weight, scale])
    }

    /// The codes of a value of the new graph by the largest magnitudes of its rows.
    fn rows(&mut self, node: &Node, x: ValueId) -> Codes {
        if let Some(known) = self.codes.get(&(x, false)) {
            return *known;
        }
        let outputs = self
            .rewriter
            .push(Arc::new(ops::QuantizeRows), &[x], node.phase, &node.scope);
        let codes = Codes {
            codes: outputs[0],
            scale: outputs[1],
            zero: ops::QuantizedMatMul::default().zero,
        };
        self.codes.insert((x, false), codes);
        codes
    }

    /// Rows of a table that has codes: their codes and scales are gathered.
    pub(super) fn gathered(&mut self, node: &Node) -> Option<ValueId> {
        let graph = self.graph;
        let is_table = node.op.is::<ops::Gather>() && graph.ty(node.inputs[0]).rank() == 2;
        // Without rows there is nothing to restore.
        if !is_table || numel(&graph.ty(node.outputs[0]).shape) == 0 {
            return None;
        }
        let table = node.inputs[0];
        if let Some(grouped) = coded::grouped(graph, table).filter(|grouped| !grouped.is_turned) {
            // Rows of codes are those of a matrix.
            let count = vec![graph.ty(node.inputs[1]).numel()];
            let ids = self.rewriter.get(node.inputs[1]);
            let ids = self.push(node, ops::Reshape { shape: count }, &[ids]);
            let parts = self.gather_parts(node, grouped.parts, ids);
            let rows = self.push(node, grouped.op, &parts);
            let shape = graph.ty(node.outputs[0]).shape.to_vec();
            return Some(self.push(node, ops::Reshape { shape }, &[rows]));
        }
        let parts = coded::matrix(graph, table)?;
        let ids = self.rewriter.get(node.inputs[1]);
        let parts = self.gather_parts(node, parts, ids);
        Some(self.push(node, ops::DequantizeRows, &parts))
    }

    /// The rows of two tables.
    fn gather_parts(&mut self, node: &Node, parts: [ValueId; 2], ids: ValueId) -> [ValueId; 2] {
        parts.map(|part| {
            let part = self.rewriter.get(part);
            self.rewriter
                .push(node.op.clone(), &[part, ids], node.phase, &node.scope)[0]
        })
    }
}
