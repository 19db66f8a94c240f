//! CRC-32C (Castagnoli), which guards both our checkpoints and the records of TensorBoard's event files.

/// Eight tables, so that eight bytes are taken in at a time (Kounavis and Berry, "slicing by 8").
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            // The polynomial 0x1EDC6F41, its bits in reverse.
            crc = (crc >> 1) ^ (if crc & 1 == 1 { 0x82F6_3B78 } else { 0 });
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    extend(0, bytes)
}

/// The checksum of what has the checksum `crc`, followed by `bytes`.
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    let mut crc = !crc;
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let low = crc ^ u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]);
        let [a, b, c, d] = low.to_le_bytes().map(usize::from);
        crc = TABLES[7][a]
            ^ TABLES[6][b]
            ^ TABLES[5][c]
            ^ TABLES[4][d]
            ^ TABLES[3][usize::from(eight[4])]
            ^ TABLES[2][usize::from(eight[5])]
            ^ TABLES[1][usize::from(eight[6])]
            ^ TABLES[0][usize::from(eight[7])];
    }
    for &byte in eights.remainder() {
        crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_are_met() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46DD_794E);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn parts_give_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..100).map(|i| (i * 37 % 251) as u8).collect();
        for cut in 0..bytes.len() {
            assert_eq!(extend(crc32c(&bytes[..cut]), &bytes[cut..]), crc32c(&bytes));
        }
    }
}
