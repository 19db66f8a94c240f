//! What a network costs on an accelerator, as text, JSON and a page.

use lessen_base::Result;
use lessen_hardware::bitfusion::{BitFusion, GroupMapping};
use lessen_hardware::{CostModel, Energy, LayerCost, NetworkCost, network_cost};
use serde_json::{Value, json};

use super::source::ModelLayers;
use super::text_table::text_table;
use lessen_pages::html::rough;

/// The cost of a model's layers.
pub struct EnergyReport {
    pub(super) network: ModelLayers,
    pub(super) accelerator: String,
    pub(super) notes: Vec<String>,
    pub(super) cost: NetworkCost,
    /// The mapping of groups, and the totals under all mappings; none where no layer has groups, or the accelerator has
    /// one mapping alone.
    pub(super) mappings: Option<(GroupMapping, Vec<(GroupMapping, LayerCost)>)>,
}

/// Names of the columns of a layer's numbers.
pub(super) const COLUMNS: [&str; 12] = [
    "kind",
    "bits",
    "cycles",
    "stalls",
    "used",
    "core µJ",
    "weights µJ",
    "inputs µJ",
    "sums µJ",
    "DRAM µJ",
    "all µJ",
    "ms",
];

impl EnergyReport {
    /// Models a network on hardware.
    ///
    /// # Errors
    /// The errors of [`network_cost`].
    pub fn new(network: ModelLayers, hardware: &dyn CostModel) -> Result<EnergyReport> {
        Ok(EnergyReport {
            accelerator: hardware.name().to_string(),
            notes: hardware
                .notes()
                .into_iter()
                .chain(network.notes.iter().cloned())
                .collect(),
            cost: network_cost(hardware, &network.layers)?,
            mappings: None,
            network,
        })
    }

    /// Models a network on BitFusion; where layers have groups, under the other mappings too.
    ///
    /// # Errors
    /// The errors of [`network_cost`].
    pub fn bit_fusion(network: ModelLayers, hardware: &BitFusion) -> Result<EnergyReport> {
        let has_groups = network.layers.iter().any(|layer| layer.shape.groups > 1);
        let mut report = EnergyReport::new(network, hardware)?;
        if has_groups {
            let total = |groups: GroupMapping| {
                let other = BitFusion::new(hardware.accelerator.clone(), groups);
                Ok((groups, network_cost(&other, &report.network.layers)?.total))
            };
            let all: Vec<_> = GroupMapping::ALL.into_iter().map(total).collect::<Result<_>>()?;
            report.mappings = Some((hardware.groups, all));
        }
        Ok(report)
    }

    /// Sentences about what is not in the numbers.
    pub fn missing(&self) -> &[String] {
        &self.network.missing
    }

    /// Its title.
    pub(super) fn title(&self) -> String {
        format!("Energy of {} on {}", self.network.name, self.accelerator)
    }

    /// The cells of a layer's row, after its name.
    pub(super) fn cells(&self, layer: Option<usize>) -> Vec<String> {
        let (kind, bits, cost) = match layer {
            Some(at) => {
                let layer = &self.network.layers[at];
                let kind = layer.shape.kind.name().to_string();
                (kind, layer.bits.to_string(), &self.cost.layers[at])
            }
            None => (String::new(), String::new(), &self.cost.total),
        };
        let energies = match &cost.energy {
            Some(energy) => {
                let parts = energy.parts().map(|(_, part)| part);
                parts
                    .into_iter()
                    .chain([energy.total()])
                    .map(|part| rough(part * 1e-3))
                    .collect()
            }
            None => vec!["–".to_string(); 6],
        };
        let counts = [cost.cycles.to_string(), cost.stall_cycles.to_string()];
        let used = format!("{:.1} %", 100.0 * cost.utilisation);
        let mut cells = vec![kind, bits];
        cells.extend(counts);
        cells.push(used);
        cells.extend(energies);
        cells.push(rough(cost.milliseconds));
        cells
    }

    /// The numbers of the whole network in words.
    pub(super) fn totals(&self) -> Vec<(String, String)> {
        let total = &self.cost.total;
        let batch = self.network.batch as f64;
        let mut lines = vec![
            ("layers".to_string(), self.cost.layers.len().to_string()),
            ("multiplications".to_string(), format!("{:.3e}", total.macs as f64)),
            (
                "weights".to_string(),
                format!("{:.3} MB", total.weight_bytes as f64 * 1e-6),
            ),
            (
                "cycles".to_string(),
                format!(
                    "{} ({} computing, {} waiting), {:.1} % of the units used",
                    total.cycles,
                    total.compute_cycles,
                    total.stall_cycles,
                    100.0 * total.utilisation
                ),
            ),
            (
                "time".to_string(),
                format!(
                    "{:.4} ms, {:.4} ms an example",
                    total.milliseconds,
                    total.milliseconds / batch
                ),
            ),
        ];
        lines.push((
            "energy".to_string(),
            match &total.energy {
                Some(energy) => format!(
                    "{:.4} mJ, {:.4} mJ an example: {}",
                    energy.total() * 1e-6,
                    energy.total() * 1e-6 / batch,
                    energy
                        .parts()
                        .map(|(part, value)| format!("{part} {:.4}", value * 1e-6))
                        .join(", ")
                ),
                None => "not modelled".to_string(),
            },
        ));
        lines
    }

    /// The totals under each mapping of groups: its word, cycles, ms and mJ.
    pub(super) fn mapping_rows(&self) -> Vec<(String, Vec<String>)> {
        let Some((chosen, all)) = &self.mappings else {
            return Vec::new();
        };
        let row = |(mapping, total): &(GroupMapping, LayerCost)| {
            let mark = if mapping == chosen { " (chosen)" } else { "" };
            let energy = total.energy.map_or(0.0, |energy| energy.total() * 1e-6);
            let cells = vec![
                total.cycles.to_string(),
                format!("{:.4}", total.milliseconds),
                format!("{energy:.4}"),
                mapping.meaning().to_string(),
            ];
            (format!("{}{mark}", mapping.name()), cells)
        };
        all.iter().map(row).collect()
    }

    /// What the model leaves out, and the operations without products.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.notes.clone();
        if !self.network.without_products.is_empty() {
            let shown = |own: &lessen_hardware::Uncounted| format!("{} {}", own.count, own.operation);
            let all: Vec<String> = self.network.without_products.iter().map(shown).collect();
            let flops: f64 = self.network.without_products.iter().map(|own| own.vector_flops).sum();
            remarks.push(format!(
                "operations without products, not counted: {} ({flops:.2e} operations in all)",
                all.join(", ")
            ));
        }
        remarks
    }

    /// Plain text.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{}: {}, batch {}\n\n",
            self.title(),
            self.network.source,
            self.network.batch
        );
        let heads: Vec<String> = std::iter::once("layer").chain(COLUMNS).map(str::to_string).collect();
        let mut rows = vec![heads];
        for (at, layer) in self.network.layers.iter().enumerate() {
            rows.push(
                std::iter::once(layer.name.clone())
                    .chain(self.cells(Some(at)))
                    .collect(),
            );
        }
        rows.push(std::iter::once("total".to_string()).chain(self.cells(None)).collect());
        text += &text_table(&rows, &[0, 1, 2]);
        text += "\n";
        for (name, value) in self.totals() {
            text += &format!("{name:16} {value}\n");
        }
        let mappings = self.mapping_rows();
        if !mappings.is_empty() {
            let heads = ["groups", "cycles", "ms", "mJ", "computed as"]
                .map(str::to_string)
                .to_vec();
            let rows = mappings
                .into_iter()
                .map(|(name, cells)| std::iter::once(name).chain(cells).collect());
            let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
            text += &format!("\n{}", text_table(&rows, &[0, 4]));
        }
        text += "\n";
        for remark in self.remarks() {
            text += &format!("- {remark}\n");
        }
        text
    }

    /// One JSON object. Energies are nJ.
    pub fn to_json(&self) -> Value {
        let layers = self.network.layers.iter().zip(&self.cost.layers);
        let layer = |(layer, cost): (&lessen_hardware::Layer, &LayerCost)| {
            let mut object = cost_json(cost);
            object["name"] = json!(layer.name);
            object["kind"] = json!(layer.shape.kind.name());
            object["weight_bits"] = json!(layer.bits.weights);
            object["activation_bits"] = json!(layer.bits.activations);
            object
        };
        let uncounted = self.network.without_products.iter().map(|own| {
            json!({
                "operation": own.operation,
                "count": own.count,
                "vector_flops": own.vector_flops,
            })
        });
        let mut object = json!({
            "model": self.network.name,
            "source": self.network.source,
            "accelerator": self.accelerator,
            "batch": self.network.batch,
            "layers": layers.map(layer).collect::<Vec<Value>>(),
            "total": cost_json(&self.cost.total),
            "notes": self.notes,
            "without_model": self.network.missing,
            "without_products": uncounted.collect::<Vec<Value>>(),
        });
        if let Some((chosen, all)) = &self.mappings {
            object["depthwise"] = json!(chosen.name());
            object["depthwise_choices"] = all
                .iter()
                .map(|(mapping, total)| (mapping.name().to_string(), cost_json(total)))
                .collect::<serde_json::Map<String, Value>>()
                .into();
        }
        object
    }
}

fn cost_json(cost: &LayerCost) -> Value {
    let energy = |energy: &Energy| {
        json!({
            "core": energy.core,
            "weight_buffer": energy.weight_buffer,
            "activation_buffer": energy.activation_buffer,
            "output_buffer": energy.output_buffer,
            "dram": energy.dram,
            "total": energy.total(),
        })
    };
    json!({
        "cycles": cost.cycles,
        "compute_cycles": cost.compute_cycles,
        "stall_cycles": cost.stall_cycles,
        "macs": cost.macs,
        "utilisation": cost.utilisation,
        "energy_nj": cost.energy.as_ref().map(energy),
        "ms": cost.milliseconds,
        "weight_bytes": cost.weight_bytes,
    })
}
